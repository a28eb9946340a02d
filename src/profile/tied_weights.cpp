// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/tied_weights.h"

#include "static_bytes.h"

#include "trireme/model/precision.h"

#include <map>
#include <set>

namespace trireme::profile {

TiedWeights::TiedWeights(const model::ChainModel& model, const config::TrainSpec& train) {
  std::map<std::string, std::vector<Use>> known;  // by kind
  for (int i = 1; i <= model.length(); ++i) {
    const model::LayerRecipe& recipe = model.layers[static_cast<std::size_t>(i - 1)];
    const auto same = recipe.kind.empty() ? known.end() : known.find(recipe.kind);
    uses_.push_back(same != known.end() ? same->second : uses_of(recipe, i, train));
    known[recipe.kind] = uses_.back();
  }
}

Bytes TiedWeights::shared(const std::vector<std::pair<int, int>>& runs) const {
  std::set<std::string> held;
  Bytes shared{0};
  for (const auto& [first, last] : runs) {
    for (int i = first; i <= last; ++i) {
      for (const Use& use : uses_.at(static_cast<std::size_t>(i - 1))) {
        if (!held.insert(use.tie).second) shared += use.size;
      }
    }
  }
  return shared;
}

std::vector<TiedWeights::Use> TiedWeights::uses_of(const model::LayerRecipe& recipe, int number,
                                                   const config::TrainSpec& train) {
  std::vector<Use> uses;
  const auto layer = recipe.build(model::Seeds(/*run_seed=*/0, number));
  model::lower_weights(*layer, model::precision_of(train.precision));
  for (const model::Parameter& parameter : layer->parameters()) {
    if (parameter.tie.empty()) continue;
    const Bytes value(static_cast<std::int64_t>(parameter.value.nbytes()));
    const Bytes state =
        parameter.is_trained ? optimizer_bytes(parameter.value, train.optimizer) : Bytes(0);
    uses.push_back({parameter.tie, value + state});
  }
  return uses;
}

}  // namespace trireme::profile
