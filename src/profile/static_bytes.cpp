// SPDX-License-Identifier: Apache-2.0
#include "static_bytes.h"

#include "trireme/profile/measure.h"

#include <ATen/ATen.h>

#include <map>
#include <set>

namespace trireme::profile {
namespace {

constexpr std::int64_t kFloatsPerLine = 16;

std::int64_t padded(std::int64_t count) {
  return (count + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

Bytes bytes_of(const at::Tensor& tensor) {
  return Bytes(static_cast<std::int64_t>(tensor.nbytes()));
}

/// A use of a tied weight: what one rank saves where it holds an earlier use.
struct TiedUse {
  std::string tie;
  Bytes size;
};
std::vector<TiedUse> tied_uses(const model::LayerRecipe& recipe, int number,
                               const config::OptimizerSpec& optimizer);

}  // namespace

at::Tensor attach_gradients(const model::Layer& layer) {
  std::int64_t total = 0;
  for (const model::Parameter& parameter : layer.parameters())
    total += padded(parameter.value.numel());
  const auto device =
      layer.parameters().empty() ? at::kCPU : layer.parameters().front().value.device();
  at::Tensor flat = at::zeros({total}, at::TensorOptions(at::kFloat).device(device));
  std::int64_t offset = 0;
  for (const model::Parameter& parameter : layer.parameters()) {
    at::Tensor value = parameter.value;
    value.mutable_grad() = flat.narrow(0, offset, value.numel()).view(value.sizes());
    offset += padded(value.numel());
  }
  return flat;
}

Bytes optimizer_bytes(const model::Parameter& parameter, const config::OptimizerSpec& optimizer) {
  const Bytes moment = bytes_of(parameter.value);
  if (optimizer.kind == "adamw") return 2 * moment + Bytes(sizeof(float));
  return optimizer.momentum != 0 ? moment : Bytes(0);
}

Bytes shared_bytes(const model::ChainModel& model, const config::OptimizerSpec& optimizer,
                   int first, int last) {
  std::map<std::string, std::vector<TiedUse>> known;  // by kind
  std::set<std::string> held;
  Bytes shared{0};
  for (int i = first; i <= last; ++i) {
    const model::LayerRecipe& recipe = model.layers.at(static_cast<std::size_t>(i - 1));
    const bool is_known = !recipe.kind.empty() && known.contains(recipe.kind);
    const std::vector<TiedUse> uses =
        is_known ? known.at(recipe.kind) : tied_uses(recipe, i, optimizer);
    known[recipe.kind] = uses;
    for (const TiedUse& use : uses) {
      if (!held.insert(use.tie).second) shared += use.size;
    }
  }
  return shared;
}

namespace {

std::vector<TiedUse> tied_uses(const model::LayerRecipe& recipe, int number,
                               const config::OptimizerSpec& optimizer) {
  std::vector<TiedUse> uses;
  const auto layer = recipe.build(model::Seeds(/*run_seed=*/0, number));
  for (const model::Parameter& parameter : layer->parameters()) {
    if (parameter.tie.empty()) continue;
    uses.push_back(
        {parameter.tie, bytes_of(parameter.value) + optimizer_bytes(parameter, optimizer)});
  }
  return uses;
}

}  // namespace
}  // namespace trireme::profile
