// SPDX-License-Identifier: Apache-2.0
#include "sub_chains.h"

#include "values/lookup.h"

#include "trireme/chain/cost_fields.h"

#include <algorithm>
#include <map>
#include <type_traits>

namespace trireme::partition {
namespace {

constexpr std::uint64_t kBase = 0x9E3779B97F4A7C15U;  // any odd number

/// The costs of a layer that solvers see.
std::vector<double> seen_of(const chain::LayerCost& layer) {
  std::vector<double> numbers;
  const auto see = [&](const chain::CostField& field, const auto& value) {
    if (!field.grows_with_examples()) return;
    if constexpr (std::is_same_v<decltype(value), const Bytes&>) {
      // Both halves: a double holds 53 bits.
      numbers.push_back(static_cast<double>(value.count() >> 31));
      numbers.push_back(static_cast<double>(value.count() & 0x7FFFFFFF));
    } else {
      numbers.push_back(value.count());
    }
  };
  chain::walk_whole(see, layer);
  if (layer.retape) chain::walk_retape(see, *layer.retape);
  return numbers;
}

}  // namespace

SubChains::SubChains(const chain::Chain& chain)
    : chain_(chain), kind_(1), prefix_(1, 0), power_(1, 1) {
  std::map<std::vector<double>, int> kinds;
  for (int i = 1; i <= chain.length(); ++i) {
    const int next = static_cast<int>(kinds.size()) + 1;
    kind_.push_back(kinds.emplace(seen_of(chain.layer(i)), next).first->second);
    prefix_.push_back(prefix_.back() * kBase + static_cast<std::uint64_t>(kind_.back()));
    power_.push_back(power_.back() * kBase);
  }
}

chain::LayerRange SubChains::earliest(chain::LayerRange layers) {
  const auto [first, last] = layers;
  const bool ends = last == chain_.length();
  std::uint64_t key = prefix_[at(last)] - prefix_[at(first - 1)] * power_[at(layers.size())];
  key ^= static_cast<std::uint64_t>(chain_.output(first - 1).count()) * 0xD6E8FEB86659FD93U;
  key ^= static_cast<std::uint64_t>(layers.size()) << 1 | static_cast<std::uint64_t>(ends);
  std::vector<chain::LayerRange>& candidates = seen_[key];
  for (const chain::LayerRange& other : candidates) {
    const bool both_end = (other.last == chain_.length()) == ends;
    if (other.size() == layers.size() && both_end && equal(layers, other)) return other;
  }
  candidates.push_back(layers);
  return layers;
}

bool SubChains::equal(chain::LayerRange one, chain::LayerRange other) const {
  return one.first == other.first ||
         (chain_.output(one.first - 1) == chain_.output(other.first - 1) &&
          std::equal(&kind_[at(one.first)], &kind_[at(one.last)] + 1, &kind_[at(other.first)]));
}

}  // namespace trireme::partition
