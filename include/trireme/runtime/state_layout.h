// Which of a rank's optimizer state is in the offload tier, and in which parts it travels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/runtime/row.h"
#include "trireme/runtime/stage.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::runtime {

/// What an optimizer holds for one number of a parameter, all of it float32.
struct StateKinds {
  bool master = false;  ///< the layer computes with another type
  bool first = false, second = false;

  int count() const { return int{master} + int{first} + int{second}; }
};
StateKinds state_kinds(const config::OptimizerSpec& spec, const StageParameter& parameter);

/// Numbers [begin, begin + count) of a parameter, seen as a row, in a part: first their masters,
/// then first moments, then second ones, as far as there are any, without gaps.
struct StateSlice {
  std::size_t parameter = 0;  ///< of Stage::parameters()
  std::int64_t begin = 0, count = 0;
  std::int64_t offset = 0;  ///< in the part, in numbers
};

struct StatePart {
  int streamed_layer = 0;  ///< whose weights all slices are of; 0: of weights that stay
  std::int64_t numbers = 0;
  std::vector<StateSlice> slices;
};

struct StateLayout {
  std::vector<Row> rows;         ///< by parameter: the numbers that have state here
  std::vector<Row> away;         ///< by parameter: the end of its row, or none of it
  std::vector<StatePart> parts;  ///< slices in the order of their parameters
  /// Of parts that come among passes, those on the device at a time.
  int parts_at_once = chain::StateParts{}.at_once;

  /// Of a parameter's row, what stays on the device.
  Row held(std::size_t parameter) const;
  /// What parts take in an offload store: what is away, and nothing else.
  Bytes room() const;
};

/// State of `rows`, together `away` bytes and less than chain::Chain::state_line more, in parts of
/// at most `part` bytes (or the least that a part can have): whole rows, large ones first, and the
/// end of one more. A layer whose weights are streamed has parts of its own. Parameters that share
/// a value, that are frozen or that do not lie in a row stay.
StateLayout lay_out_state(const config::OptimizerSpec& spec,
                          const std::vector<StageParameter>& parameters, Bytes away, Bytes part,
                          std::vector<Row> rows);
/// The same of whole_rows().
StateLayout lay_out_state(const config::OptimizerSpec& spec,
                          const std::vector<StageParameter>& parameters, Bytes away, Bytes part);

}  // namespace trireme::runtime
