// The costs of a chain as plain arrays of int, clipped to a table: what the loops over decisions
// read.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/costs.h"

#include <cstddef>
#include <vector>

namespace trireme::solve {

/// A slot number that fits an int: all numbers beyond the table count the same.
inline int clipped(Slots slots, int top) {
  return slots > top ? top + 1 : static_cast<int>(slots);
}

/// Every function returns a pointer to one layer's entry in an array over layers.
class SlotArrays {
 public:
  SlotArrays(const Costs& costs, int top);

  const int* output(int i) const { return output_.data() + at(i); }
  const int* tape(int i) const { return tape_.data() + at(i); }
  const int* taping_with_input(int i) const { return taping_.data() + at(i); }
  const int* nothing() const { return nothing_.data(); }
  /// Forward times of first..i, summed.
  const double* forward(int i) const { return forward_.data() + at(i + 1); }
  /// The same less what a retape of i saves.
  const double* redone(int i) const { return redone_.data() + at(i); }
  /// costs.run(s, j), costs.run(s, j+1), ...
  const int* run(int s, int j) const { return run_.data() + row(s) + index(j - s); }

 protected:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::size_t at(int i) const { return index(i - first_); }
  /// Where layers s.. begin in an array over all sub-chains.
  std::size_t row(int s) const;
  std::size_t sub_chains() const { return run_.size(); }

 private:
  int first_;
  std::vector<int> output_, tape_, taping_, nothing_, run_;
  std::vector<double> forward_, redone_;
};

}  // namespace trireme::solve
