// SPDX-License-Identifier: Apache-2.0
#include "architectures/parts.h"

#include "device/device_products.h"
#include "run/saved_tensors.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

namespace trireme::model {
namespace {

/// One layer of consecutive parts of `block`; their parameters' names begin with their place if
/// several places share the layer.
LayerRecipe layer_of_parts(std::string name, std::string kind, const std::string& block,
                           std::vector<PartRecipe> parts);
/// The product of a linear layer; a lean tape does not keep a cast copy of the weight.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const Context& context);

}  // namespace

Values PartsLayer::forward(const Values& input, const Context& context) {
  const std::vector<std::int64_t>& documents = context.documents;
  if (!documents.empty())
    ensure(std::accumulate(documents.begin(), documents.end(), std::int64_t{0}) ==
               input[0].size(0) * input[0].size(1),
           "documents fill their rows");
  Values values = input;
  for (const Part& part : parts_) values = part(std::move(values), {.context = context});
  return values;
}

Values PartsLayer::forward_piece(const Values& input, const Context& context, Past& past) {
  const std::int64_t tokens = input[0].size(1);
  Values values = input;
  for (const Part& part : parts_)
    values = part(std::move(values), {.context = context, .past = &past});
  past.advance(tokens);
  return values;
}

PartBuilder::PartBuilder(PartsLayer& layer, const Seeds& seeds, std::string place,
                         std::string prefix)
    : layer_(layer), seeds_(seeds), place_(std::move(place)), prefix_(std::move(prefix)) {}

at::Tensor PartBuilder::normal(const std::string& name, at::IntArrayRef sizes,
                               double deviation) const {
  const at::Generator from = seeds_.of_parameter(concat(place_, ".", name));
  return layer_.add_parameter(prefix_ + name, model::normal(sizes, deviation, from));
}

at::Tensor PartBuilder::constant(const std::string& name, at::IntArrayRef sizes,
                                 double value) const {
  return layer_.add_parameter(prefix_ + name, at::full(sizes, value, at::kFloat));
}

at::Tensor PartBuilder::float32_constant(const std::string& name, at::IntArrayRef sizes,
                                         double value) const {
  return layer_.add_float32_parameter(prefix_ + name, at::full(sizes, value, at::kFloat));
}

at::Tensor PartBuilder::buffer(const std::string& name, at::IntArrayRef sizes, double value) const {
  return layer_.add_buffer(prefix_ + name, at::full(sizes, value, at::kFloat));
}

at::Tensor PartBuilder::tied(const std::string& name, at::IntArrayRef sizes, double deviation,
                             const std::string& tie) const {
  return layer_.add_parameter(prefix_ + name, model::normal(sizes, deviation, seeds_.of_tie(tie)),
                              tie);
}

LayerRecipe layer_of(std::string name, std::string kind, double work,
                     std::function<Part(const PartBuilder&)> build) {
  return {.name = name,
          .work = work,
          .build = [name, build = std::move(build)](const Seeds& seeds) -> std::unique_ptr<Layer> {
            auto layer = std::make_unique<PartsLayer>();
            layer->append(build(PartBuilder(*layer, seeds, name)));
            return layer;
          },
          .kind = std::move(kind)};
}

void add_block(ChainModel& model, const std::string& block, const std::vector<PartRecipe>& parts,
               const std::string& grain) {
  if (grain == "block") {
    model.layers.push_back(layer_of_parts(block, "block", block, parts));
    return;
  }
  const bool is_fine = grain == "fine";
  ensure(is_fine || grain == "half_block", "a grain is block, half_block or fine");
  std::vector<PartRecipe> together;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PartRecipe& part = parts[i];
    together.push_back(part);
    const bool ends = is_fine || i + 1 == parts.size() || parts[i + 1].place != part.place;
    if (!ends) continue;
    const std::string name = is_fine ? concat(part.place, ".", part.name) : part.place;
    model.layers.push_back(
        layer_of_parts(concat(block, ".", name), name, block, std::exchange(together, {})));
  }
}

at::Tensor Linear::operator()(const at::Tensor& x, const Context& context) const {
  const at::Tensor y = product(x, weight, bias, context);
  if (!lora_A.defined()) return y;
  return y.add(product(product(x, lora_A, {}, context), lora_B, {}, context), lora_scale);
}

at::Tensor Linear::of_gelu(at::Tensor h, const std::string& approximation,
                           const Context& context) const {
  if (!lora_A.defined() && has_own_gelu_linear(h, weight, bias)) {
    return own_gelu_linear(
        std::move(h), weight, bias,
        {.is_tanh = approximation == "tanh", .keeps_result = !context.lean_tapes});
  }
  const auto gelu = [approximation](const Values& source) {
    return at::gelu(source[0], approximation);
  };
  return (*this)(remade({std::move(h)}, context, gelu), context);
}

bool Lora::covers(const std::string& name) const {
  return rank > 0 &&
         (targets.empty() || std::find(targets.begin(), targets.end(), name) != targets.end());
}

Linear add_linear(const PartBuilder& build, const std::string& name, std::int64_t in,
                  std::int64_t out, double deviation, const Lora& lora) {
  Linear linear = add_linear_without_bias(build, name, in, out, deviation, lora);
  linear.bias = build.constant(name + ".bias", {out}, 0);
  return linear;
}

Linear add_linear_without_bias(const PartBuilder& build, const std::string& name, std::int64_t in,
                               std::int64_t out, double deviation, const Lora& lora) {
  Linear linear{.weight = build.normal(name + ".weight", {out, in}, deviation)};
  if (!lora.covers(name)) return linear;
  // Initialized so that x A^T has about the size of x.
  linear.lora_A =
      build.normal(name + ".lora_A", {lora.rank, in}, 1 / std::sqrt(3 * static_cast<double>(in)));
  linear.lora_B = build.constant(name + ".lora_B", {out, lora.rank}, 0);
  linear.lora_scale = lora.alpha / lora.rank;
  return linear;
}

at::Tensor Norm::operator()(const at::Tensor& x, const Context& context) const {
  return with_input(x, context).y;
}

Values Norm::into(const std::vector<const Linear*>& layers, const at::Tensor& x,
                  const Context& context) const {
  bool has_adapters = false;
  std::vector<LinearWeights> all;
  for (const Linear* const layer : layers) {
    has_adapters = has_adapters || layer->lora_A.defined();
    all.push_back({layer->weight, layer->bias});
  }
  const NormWeights mine{factor(), bias, epsilon};
  if (!has_adapters && has_own_norm_linears(x, mine, all))
    return own_norm_linears(x, mine, all, !context.lean_tapes);
  const auto [y, further] = with_input(x, context);
  Values results;
  for (const Linear* const layer : layers) results.push_back((*layer)(y, context));
  results.push_back(further);
  return results;
}

NormAndInput Norm::with_input(const at::Tensor& x, const Context& context) const {
  const at::ScalarType type = product_type(x);
  const auto normed = [type, norm = *this](const at::Tensor& source) {
    NormAndInput both = norm.bias.defined()
                            ? layer_norm_with_input(source, norm.weight, norm.bias, norm.epsilon)
                            : rms_norm_with_input(source, norm.factor(), norm.epsilon);
    both.y = both.y.to(type);
    return both;
  };
  NormAndInput both = normed(x);
  if (context.lean_tapes)
    RemakingScope::stand_in(both.y, {x},
                            [normed](const Values& source) { return normed(source[0]).y; });
  return both;
}

at::Tensor Norm::factor() const {
  // Rounded once: 1 + weight of a bfloat16 weight is as exact as the weight of another norm.
  return is_zero_centered ? (weight.to(at::promote_types(weight.scalar_type(), at::kFloat)) + 1)
                                .to(weight.scalar_type())
                          : weight;
}

Norm add_norm(const PartBuilder& build, const std::string& name, std::int64_t width,
              double epsilon) {
  return {.weight = build.constant(name + ".weight", {width}, 1),
          .bias = build.constant(name + ".bias", {width}, 0),
          .epsilon = epsilon};
}

Norm add_rms_norm(const PartBuilder& build, const std::string& name, std::int64_t width,
                  double epsilon) {
  return {.weight = build.constant(name + ".weight", {width}, 1), .bias = {}, .epsilon = epsilon};
}

Norm add_zero_centered_rms_norm(const PartBuilder& build, const std::string& name,
                                std::int64_t width, double epsilon) {
  return {.weight = build.constant(name + ".weight", {width}, 0),
          .bias = {},
          .epsilon = epsilon,
          .is_zero_centered = true};
}

namespace {

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const Context& context) {
  const at::ScalarType type = product_type(x);
  if (type == weight.scalar_type()) return linear(x, weight, bias);
  // What autocast would do, and save, by itself.
  const at::Tensor cast =
      remade({weight}, context, [type](const Values& source) { return source[0].to(type); });
  return at::linear(x, cast, bias);
}

LayerRecipe layer_of_parts(std::string name, std::string kind, const std::string& block,
                           std::vector<PartRecipe> parts) {
  double work = 0;
  std::optional<std::int64_t> window;
  for (const PartRecipe& part : parts) {
    work += part.work;
    if (part.window) window = part.window;
    if (kind.find(part.variant) == std::string::npos) kind += part.variant;
  }
  const bool is_whole = parts.front().place != parts.back().place;
  return {.name = std::move(name),
          .work = work,
          .build = [block, is_whole,
                    parts = std::move(parts)](const Seeds& seeds) -> std::unique_ptr<Layer> {
            auto layer = std::make_unique<PartsLayer>();
            for (const PartRecipe& part : parts) {
              layer->append(part.build(PartBuilder(*layer, seeds, concat(block, ".", part.place),
                                                   is_whole ? part.place + "." : "")));
            }
            return layer;
          },
          .kind = std::move(kind),
          .window = window};
}

}  // namespace
}  // namespace trireme::model
