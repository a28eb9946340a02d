// Some of a parameter's numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/runtime/stage.h"

#include <cstdint>
#include <vector>

namespace trireme::runtime {

/// Numbers [begin, begin + count) of a parameter, seen as a row.
struct Row {
  /// What is updated apart from the rest takes multiples of it: no kernel of LibTorch sees another
  /// remainder at the end of such numbers than at the end of the parameter, so that bits are the
  /// same.
  static constexpr std::int64_t kAlignment = 64;
  static std::int64_t aligned(std::int64_t numbers) {
    return (numbers + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::int64_t begin = 0, count = 0;

  std::int64_t end() const { return begin + count; }
  bool operator==(const Row&) const = default;
};

/// Whether numbers of it can be updated apart from the rest.
bool lies_in_a_row(const StageParameter& parameter);

/// All numbers of each parameter that an update changes: a trained one with a value of its own.
std::vector<Row> whole_rows(const std::vector<StageParameter>& parameters);

}  // namespace trireme::runtime
