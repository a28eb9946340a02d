// Visits every layer of a chain while building only one layer of each kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace trireme::model {

/// The results of `look(layer)` for every layer, in chain order. Layers are built and freed one at
/// a time, with arbitrary initial values; of layers of one kind only the first.
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
