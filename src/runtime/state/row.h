// A contiguous range of a parameter's numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"

#include "trireme/model/update.h"

#include <cstdint>
#include <vector>

namespace trireme::runtime {

/// Numbers [begin, begin + count) of a flattened parameter.
struct Row {
  /// Rows begin at multiples of this.
  static constexpr std::int64_t kAlignment = model::kUpdatedTogether;
  static std::int64_t aligned(std::int64_t numbers) {
    return (numbers + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::int64_t begin = 0, count = 0;

  std::int64_t end() const { return begin + count; }
  bool operator==(const Row&) const = default;
};

/// Whether a row of it can be updated separately: weight and gradient are contiguous.
bool lies_in_a_row(const StageParameter& parameter);

/// By parameter: the row of all its numbers if an update changes it (it is trained and has a value
/// of its own), else an empty one.
std::vector<Row> whole_rows(const std::vector<StageParameter>& parameters);

}  // namespace trireme::runtime
