// Which of a rank's optimizer state is offloaded, and in which parts it is copied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/row.h"
#include "state/stage.h"

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::runtime {

/// Optimizer state for one number of a parameter, all of it float32.
struct StateKinds {
  bool master = false;  ///< the layer computes with another type
  bool first = false, second = false;

  int count() const { return int{master} + int{first} + int{second}; }
};
StateKinds state_kinds(const config::OptimizerSpec& spec, const StageParameter& parameter);

/// The state of numbers [begin, begin + count) of a flattened parameter, within a part: first
/// masters, then first moments, then second ones, as far as there are any, without gaps.
struct StateSlice {
  std::size_t parameter = 0;  ///< index in Stage::parameters()
  std::int64_t begin = 0, count = 0;
  std::int64_t offset = 0;  ///< in the part, in numbers
};

struct StatePart {
  int streamed_layer = 0;  ///< streamed layer of all slices; 0: of weights that stay on the device
  std::int64_t numbers = 0;
  std::vector<StateSlice> slices;
};

struct StateLayout {
  std::vector<Row> rows;         ///< by parameter: the numbers that have state here
  std::vector<Row> offloaded;    ///< by parameter: the offloaded end of its row, or none of it
  std::vector<StatePart> parts;  ///< slices in the order of their parameters
  /// Parts on the device at a time during overlapped updates.
  int parts_at_once = chain::StateParts{}.at_once;

  /// The part of a parameter's row that stays on the device.
  Row held(std::size_t parameter) const;
  /// Bytes of the parts in an offload store: the offloaded state, and nothing else.
  Bytes room() const;
};

/// Offloads `offloaded` bytes (less than chain::Chain::state_line more) of the state of `rows` in
/// parts of at most `part` bytes (or the least that a part can have): whole rows, large ones first,
/// and the end of one more. A layer whose weights are streamed has parts of its own. Parameters
/// that share a value, are frozen or do not lie in a row stay on the device.
StateLayout lay_out_state(const config::OptimizerSpec& spec,
                          const std::vector<StageParameter>& parameters, Bytes offloaded,
                          Bytes part, std::vector<Row> rows);
/// The same for whole_rows().
StateLayout lay_out_state(const config::OptimizerSpec& spec,
                          const std::vector<StageParameter>& parameters, Bytes offloaded,
                          Bytes part);

}  // namespace trireme::runtime
