// Chains of random costs for the benches: all layers differ, or some repeat.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace trireme::solve {

/// `layers` random layers, always the same: tapes are three to four outputs, backwards twice as
/// long as forwards.
inline std::vector<chain::LayerCost> random_layers(int layers) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(1e-3, 5e-3);
  std::uniform_int_distribution<std::int64_t> size(1 << 20, 4 << 20);
  std::vector<chain::LayerCost> costs(static_cast<std::size_t>(layers));
  for (chain::LayerCost& cost : costs) {
    cost.forward = Seconds(time(random));
    cost.backward = 2 * cost.forward.count() * Seconds(1);
    cost.output = Bytes(size(random));
    cost.tape = 3 * cost.output + Bytes(size(random));
    cost.forward_transient = cost.tape_transient = Bytes(size(random) / 4);
    cost.backward_transient = Bytes(4 << 20);
  }
  return costs;
}

/// The first `period` of them repeat until there are `layers`; with period >= layers all differ.
inline chain::Chain repeating_chain(int layers, int period) {
  chain::Chain chain{
      .name = "bench", .input = Bytes(1 << 20), .layers = random_layers(std::min(layers, period))};
  while (chain.length() < layers)
    chain.layers.push_back(chain.layers[chain.layers.size() - static_cast<std::size_t>(period)]);
  return chain;
}

}  // namespace trireme::solve
