// Runs of layers with equal costs, so that the blocks of a transformer are solved once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/layer_range.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace trireme::partition {

class SubChains {
 public:
  explicit SubChains(const chain::Chain& chain);

  /// The earliest queried run that a solver cannot tell from these layers: times, sizes and input
  /// are equal, and both or neither end with the chain. Static bytes, which no solver sees, may
  /// differ.
  chain::LayerRange earliest(chain::LayerRange layers);

 private:
  /// Both must have the same length.
  bool equal(chain::LayerRange one, chain::LayerRange other) const;

  const chain::Chain& chain_;
  std::vector<int> kind_;              // of each layer, 1..L; [0] unused
  std::vector<std::uint64_t> prefix_;  // polynomial hash of kinds
  std::vector<std::uint64_t> power_;
  std::unordered_map<std::uint64_t, std::vector<chain::LayerRange>> seen_;
};

}  // namespace trireme::partition
