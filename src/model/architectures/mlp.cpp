// A multilayer perceptron for classification: linear, optional batch norm, GELU, dropout; then
// linear + cross-entropy.
//
// Shapes: B examples of the micro-batch, N values.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/convolution.h"

#include "trireme/core/text.h"
#include "trireme/model/chain.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <cmath>

namespace trireme::model {
namespace {

/// Normal values with variance 2 / in, which keeps the scale of activations after ReLUs (He et al.
/// 2015).
at::Tensor initial_weight(std::int64_t out, std::int64_t in, const at::Generator& from) {
  return normal({out, in}, std::sqrt(2.0 / static_cast<double>(in)), from);
}

/// [B, in] to [B, out].
class Hidden final : public Layer {
 public:
  Hidden(std::int64_t in, std::int64_t out, const config::MlpSpec& spec, const Seeds& seeds)
      : dropout_(spec.dropout), batch_norm_(spec.batch_norm) {
    linear_ = {.weight = add_parameter("linear.weight", initial_weight(out, in, seeds.of_layer())),
               .bias = add_parameter("linear.bias", at::zeros({out}))};
    if (!batch_norm_) return;
    norm_ = {.weight = add_float32_parameter("norm.weight", at::ones({out})),
             .bias = add_float32_parameter("norm.bias", at::zeros({out})),
             .mean = add_buffer("norm.running_mean", at::zeros({out})),
             .variance = add_buffer("norm.running_var", at::ones({out}))};
  }

  Values forward(const Values& input, const Context& context) override {
    at::Tensor x = linear_(input[0], context);
    if (batch_norm_) x = norm_(x, context);
    return {dropout(at::gelu(x), dropout_, context)};
  }

 private:
  double dropout_;
  bool batch_norm_;
  Linear linear_;
  BatchNorm norm_;
};

/// [B, in] to the mean cross-entropy against the target classes.
class Classifier final : public Layer {
 public:
  Classifier(std::int64_t in, std::int64_t classes, const Seeds& seeds) {
    linear_ = {
        .weight = add_parameter("linear.weight", initial_weight(classes, in, seeds.of_layer())),
        .bias = add_parameter("linear.bias", at::zeros({classes}))};
  }

  Values forward(const Values& input, const Context& context) override {
    return {cross_entropy(linear_(input[0], context), context.target.at(0))};
  }

 private:
  Linear linear_;
};

}  // namespace

ChainModel make_mlp(const config::MlpSpec& spec) {
  ChainModel model{.name = concat("mlp-", spec.widths.size(), "x",
                                  spec.widths.empty() ? spec.inputs : spec.widths.front()),
                   .layers = {},
                   .input = InputKind::kVectors,
                   .input_size = spec.inputs,
                   .classes = spec.classes};
  std::int64_t in = spec.inputs;
  for (const int width : spec.widths) {
    model.layers.push_back(
        {.name = concat("hidden", model.layers.size()),
         .work = static_cast<double>(in) * width,
         .build = [in, width, spec](const Seeds& seeds) -> std::unique_ptr<Layer> {
           return std::make_unique<Hidden>(in, width, spec, seeds);
         },
         .kind = concat("hidden ", in, " to ", width)});
    in = width;
  }
  model.layers.push_back({.name = "classifier",
                          .work = static_cast<double>(in) * spec.classes,
                          .build = [in, spec](const Seeds& seeds) -> std::unique_ptr<Layer> {
                            return std::make_unique<Classifier>(in, spec.classes, seeds);
                          },
                          .kind = "classifier"});
  return model;
}

}  // namespace trireme::model
