// Classes of equal sub-chains (e.g. equal blocks of a transformer), whose tables are equal and made
// once.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::solve {

/// Classes of the sub-chains of first..last by what the recurrences read: forward times and all
/// sizes. Tables hold recomputation times alone; what also holds backward times must tell those
/// apart.
class EqualLayers {
 public:
  enum class Backwards { kAnyTime, kOfEqualTime };
  /// O(L^2) time, two bytes per sub-chain.
  EqualLayers(const chain::Chain& chain, int first, int last,
              Backwards backwards = Backwards::kAnyTime);

  /// The last s' with layers s'..s'+(t-s) equal to s..t.
  int twin(int s, int t) const {
    return first_ +
           twins_[row_[static_cast<std::size_t>(s - first_)] + static_cast<std::size_t>(t - s)];
  }
  /// Number of different sub-chains.
  std::size_t different() const { return different_; }

 private:
  int first_;
  std::size_t different_ = 0;
  std::vector<std::size_t> row_;
  std::vector<std::uint16_t> twins_;
};

}  // namespace trireme::solve
