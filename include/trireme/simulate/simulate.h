// Simulation of a program on its platform: when every action runs and what every rank holds then.
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

/// Bytes on the device from `time` to the next point, static and channel bytes included.
struct MemoryPoint {
  Seconds time;
  Bytes held;

  bool operator==(const MemoryPoint&) const = default;
};

/// Where a rank's events take time. Streamed weights and their gradients share the links of the
/// other copies; they have lanes of their own only to be told apart.
enum class Lane { kCompute, kOut, kIn, kWeights, kWeightsOut, kLink };

/// A time interval on a lane: on kLink a message to `peer`, on the weights' lanes a prefetch or an
/// offload of the layer's weights.
struct Event {
  int rank = 0;
  Lane lane{};
  program::Action action;
  Seconds begin, end;
  int peer = -1;
  bool again = false;  ///< a recomputed forward: not the layer's first for its micro-batch

  bool operator==(const Event&) const = default;
};

/// When a rank's device memory peaks, and what it holds then.
struct Peak {
  Bytes size;
  Seconds time;
  std::size_t index = 0;                  ///< the action that runs then, or is about to
  std::optional<program::Action> action;  ///< empty on a rank without actions
  /// What is held then, largest first: ("static", ...), ("tape 3 of micro-batch 1", ...), ("while
  /// 1:backward 3 runs", ...). The bytes add up to `size`. Filled with more than Detail::kFigures.
  std::vector<std::pair<std::string, Bytes>> contents;
};

/// Most bytes in a rank's offload tier by kind; all() is the capacity that it needs.
struct OffloadRoom {
  Bytes values;   ///< outputs and tapes, from the copy out to the first use after the copy in
  Bytes weights;  ///< streamed weights and their gradients
  Bytes state;    ///< optimizer state: chain::state_room()

  Bytes all() const { return values + weights + state; }
  bool operator==(const OffloadRoom&) const = default;
};

/// Energy of a rank in one step, in joules: of its passes the layers' own where the chain says
/// them, all else by the platform's power model (chain::Power). 0 where neither is there.
struct Energy {
  Joules compute;    ///< passes and updates
  Joules recompute;  ///< part of compute: forwards beyond the first
  Joules copies;     ///< copies to and from the offload tier
  Joules idle;       ///< while the rank does not compute, until the step of all ranks ends

  Joules all() const { return compute + copies + idle; }
  Energy& operator+=(const Energy& other);
  bool operator==(const Energy&) const = default;
};

struct RankResult {
  Seconds busy;             ///< compute
  Seconds recompute;        ///< part of busy: forwards beyond the first
  Seconds wait_for_ranks;   ///< waits for messages, for room in message streams, and for gradient
                            ///< sums and weights of other replicas
  Seconds wait_for_copies;  ///< waits for values and weights being copied in, for device memory,
                            ///< and for optimizer state
  Seconds copies_out, copies_in;  ///< busy time of the copy lanes, optimizer state included
  Seconds end;  ///< when its last action ends: busy and both waits, and where a step was measured,
                ///< the host's own time
  Peak peak;
  Bytes at_once;  ///< peak if all copies were instant: no copy rate lowers it; validate() checks it
  OffloadRoom offloaded;
  Bytes moved;          ///< total bytes of values offloaded and copied back
  Bytes state_moved;    ///< optimizer state copied in and out again
  Bytes weights_moved;  ///< streamed weights and gradients copied in
  Energy energy;
  std::vector<MemoryPoint> curve;  ///< with Detail::kTimeline
};

struct Simulation {
  std::optional<ProgramFault> fault;  ///< with one, all other members are meaningless
  Seconds step;                       ///< from the first action to the last
  double bubble = 0;                  ///< 1 - busy / (ranks x step)
  Seconds recompute;                  ///< summed over ranks
  Energy energy;                      ///< summed over ranks
  std::vector<RankResult> ranks;
  std::vector<Event> events;  ///< with Detail::kTimeline; by rank, then in the order recorded
};

/// kFigures: all but contents of peaks, curves and events; for searches.
enum class Detail { kFigures, kSummary, kTimeline };

/// Simulates `program`. A layer takes its time / the rank's speed, and so does the update of a
/// rank's layers at the end of a step. A sender continues at once unless its stream is full.
/// Messages take their link's time, one after the other per ordered pair of ranks and stream
/// (latency overlaps); a receive waits for the arrival. Copies run as in replay(), with the rank's
/// memory as budget. Everything else takes no time.
///
/// Reports a fault where validate() would find one that stops the program (a missing value, a
/// deadlock); exceeding the budget is no fault, see `peak`. The numbers depend on no order but the
/// program's. O(actions); the summary of 1024 ranks x 1024 micro-batches takes seconds.
Simulation simulate(const program::Program& program, const Setting& setting,
                    Detail detail = Detail::kSummary);

}  // namespace trireme::simulate
