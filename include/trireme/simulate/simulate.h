// A program run on a model of its platform: when everything happens, what every rank holds then.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/action.h"
#include "trireme/simulate/validate.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::simulate {

/// Bytes on the device from `time` to the next point, static bytes and channel inside.
struct MemoryPoint {
  Seconds time;
  Bytes held;

  bool operator==(const MemoryPoint&) const = default;
};

/// What a rank's time goes on. Weights that are streamed, and their gradients, come and leave on
/// the same ways as other copies; they stand on lanes of their own to be told apart.
enum class Lane { kCompute, kOut, kIn, kWeights, kWeightsOut, kLink };

/// Something that took time on a lane; on links, a message on its way to `peer`; of weights, a
/// prefetch or an offload of their layer.
struct Event {
  int rank = 0;
  Lane lane{};
  program::Action action;
  Seconds begin, end;
  int peer = -1;
  bool again = false;  ///< a forward beyond the layer's first for its micro-batch

  bool operator==(const Event&) const = default;
};

/// Where a rank holds most.
struct Peak {
  Bytes size;
  Seconds time;
  std::size_t index = 0;                  ///< the action that runs then, or is about to
  std::optional<program::Action> action;  ///< nothing on a rank without actions
  /// What is there then, largest first: ("static", ...), ("tape 3 of micro-batch 1", ...), ("while
  /// 1:backward 3 runs", ...). The bytes add up to `size`. With more than Detail::kFigures.
  std::vector<std::pair<std::string, Bytes>> contents;
};

/// What a rank's offload tier holds at most, and all that it needs to have room for.
struct OffloadRoom {
  Bytes values;   ///< outputs and tapes, from their copies out until what came back is used
  Bytes weights;  ///< streamed, with their gradients
  Bytes state;    ///< of the optimizer: chain::state_room()

  Bytes all() const { return values + weights + state; }
  bool operator==(const OffloadRoom&) const = default;
};

struct RankResult {
  Seconds busy;                   ///< compute
  Seconds recompute;              ///< of it, forwards beyond the first
  Seconds wait_for_ranks;         ///< for messages, for room in streams, and for sums and weights
                                  ///< of other replicas
  Seconds wait_for_copies;        ///< for values and weights on their way in, for room on the
                                  ///< device, and for optimizer state
  Seconds copies_out, copies_in;  ///< busy time of the copy lanes, state's copies inside
  Seconds end;                    ///< its last action; busy and both waits add up to it, and where
                                  ///< a step was measured, the host's own time
  Peak peak;
  Bytes at_once;  ///< most that an action needs if all copies are instant: what
                  ///< no rate of copies can lessen, and validate() looks at
  OffloadRoom offloaded;
  Bytes moved;                     ///< values offloaded in all, which come back
  Bytes state_moved;               ///< optimizer state that came, and left again
  Bytes weights_moved;             ///< streamed weights and gradients that came
  std::vector<MemoryPoint> curve;  ///< with Detail::kTimeline
};

struct Simulation {
  std::optional<ProgramFault> fault;  ///< with one, nothing else means anything
  Seconds step;                       ///< from the first action to the last
  double bubble = 0;                  ///< 1 - busy / (ranks x step)
  Seconds recompute;                  ///< summed over ranks
  std::vector<RankResult> ranks;
  std::vector<Event> events;  ///< with Detail::kTimeline; by rank, then as they came
};

/// kFigures: all but contents of peaks, curves and events; for searches.
enum class Detail { kFigures, kSummary, kTimeline };

/// Runs `program`: a layer takes its time / the rank's speed, and so does the update of a rank's
/// layers at the end of a step; a sender goes on at once unless its
/// stream is full; a message takes its link's time, one after the other on the lane of its ordered
/// pair of ranks and stream (latency overlaps); a receive waits for the arrival; copies go as in
/// replay(), with the rank's memory as the budget that they wait for. Everything else takes no
/// time.
///
/// Reports a fault where validate() would find one that stops the program (a missing value, a
/// deadlock); being over budget is none, `peak` tells. The numbers do not depend on any order but
/// the program's. O(actions); the summary of 1024 ranks x 1024 micro-batches takes seconds.
Simulation simulate(const program::Program& program, const Setting& setting,
                    Detail detail = Detail::kSummary);

}  // namespace trireme::simulate
