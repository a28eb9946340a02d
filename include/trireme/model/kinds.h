// One look at every layer of a chain for the price of one layer of each kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace trireme::model {

/// What `look(layer)` says of every layer, in chain order. Layers are built one after the other,
/// with the values of no run, and go again; of those that are of one kind, the first alone.
template <class Look>
auto of_every_layer(const ChainModel& model, const Look& look) {
  using Said = std::invoke_result_t<const Look&, Layer&>;
  std::map<std::string, Said> of_kinds;
  std::vector<Said> said;
  for (int number = 1; number <= model.length(); ++number) {
    const LayerRecipe& recipe = model.layers[static_cast<std::size_t>(number - 1)];
    const auto known = recipe.kind.empty() ? of_kinds.end() : of_kinds.find(recipe.kind);
    if (known != of_kinds.end()) {
      said.push_back(known->second);
      continue;
    }
    said.push_back(look(*recipe.build(Seeds(/*run_seed=*/0, number))));
    if (!recipe.kind.empty()) of_kinds.emplace(recipe.kind, said.back());
  }
  return said;
}

}  // namespace trireme::model
