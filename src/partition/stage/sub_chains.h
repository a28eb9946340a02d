// Runs of layers with equal costs, so that the blocks of a transformer are solved once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme::partition {

/// First and last layer.
using Run = std::pair<int, int>;

class SubChains {
 public:
  explicit SubChains(const chain::Chain& chain);

  /// First layer of the earliest queried run that a solver cannot tell from first..last: times,
  /// sizes and input are equal, and both or neither end with the chain. Static bytes, which no
  /// solver sees, may differ.
  int earliest(int first, int last);
  /// The earliest such run.
  Run run(int first, int last) {
    const int begin = earliest(first, last);
    return {begin, begin + last - first};
  }

 private:
  bool equal(int first, int other, int length) const;

  const chain::Chain& chain_;
  std::vector<int> kind_;              // of each layer, 1..L; [0] unused
  std::vector<std::uint64_t> prefix_;  // polynomial hash of kinds
  std::vector<std::uint64_t> power_;
  std::unordered_map<std::uint64_t, std::vector<Run>> seen_;
};

}  // namespace trireme::partition
