// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/tied_weights.h"

#include "static_bytes.h"

#include "trireme/model/kinds.h"
#include "trireme/model/precision.h"

#include <set>

namespace trireme::profile {

TiedWeights::TiedWeights(const model::ChainModel& model, const config::TrainSpec& train)
    : uses_(model::of_every_layer(
          model, [&train](model::Layer& layer) { return uses_of(layer, train); })) {}

chain::SharedBytes TiedWeights::shared(const std::vector<std::pair<int, int>>& runs) const {
  std::set<std::string> held;
  chain::SharedBytes shared;
  for (const auto& [first, last] : runs) {
    for (int i = first; i <= last; ++i) {
      for (const Use& use : uses_.at(static_cast<std::size_t>(i - 1))) {
        if (held.insert(use.tie).second) continue;
        shared.weights += use.size.weights;
        shared.optimizer += use.size.optimizer;
      }
    }
  }
  return shared;
}

std::vector<TiedWeights::Use> TiedWeights::uses_of(model::Layer& layer,
                                                   const config::TrainSpec& train) {
  std::vector<Use> uses;
  model::lower_weights(layer, model::precision_of(train.precision));
  for (const model::Parameter& parameter : layer.parameters()) {
    if (parameter.tie.empty()) continue;
    const Bytes value(static_cast<std::int64_t>(parameter.value.nbytes()));
    const Bytes state =
        parameter.is_trained ? optimizer_bytes(parameter.value, train.optimizer) : Bytes(0);
    uses.push_back({parameter.tie, {value, state}});
  }
  return uses;
}

}  // namespace trireme::profile
