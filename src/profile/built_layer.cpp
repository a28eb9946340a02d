// SPDX-License-Identifier: Apache-2.0
#include "built_layer.h"

#include "layer_cost.h"
#include "static_bytes.h"

#include <cstdint>
#include <vector>

namespace trireme::profile {

BuiltLayer build_layer(const LayerToBuild& what, chain::LayerCost& cost) {
  BuiltLayer held;
  const Bytes before = what.memory.live();
  held.layer = what.model.layers[static_cast<std::size_t>(what.number) - 1].build(
      model::Seeds(what.job.train.seed, what.number));
  model::move_to(what.device, *held.layer);
  model::lower_weights(*held.layer, model::precision_of(what.job.train.precision));
  cost.parameters = what.memory.live() - before;
  cost.optimizer = Bytes(0);
  std::vector<at::Tensor> values, own;
  for (const model::Parameter& parameter : held.layer->parameters()) {
    if (!parameter.is_trained) {
      if (parameter.tie.empty()) cost.frozen += held_by({parameter.value});
      continue;
    }
    values.push_back(parameter.value);
    if (parameter.tie.empty()) own.push_back(parameter.value);
    cost.optimizer += optimizer_bytes(parameter.value, what.job.train.optimizer);
  }
  held.gradients.emplace(values);
  cost.gradients = held_by({held.gradients->flat()});
  if (cost.frozen > Bytes(0)) return held;
  for (const at::Tensor& weight : own)
    cost.trained += Bytes(static_cast<std::int64_t>(weight.nbytes()));
  cost.trained_gradients =
      Bytes(model::GradientSums::numbers_for(own) * std::int64_t{sizeof(float)});
  return held;
}

}  // namespace trireme::profile
