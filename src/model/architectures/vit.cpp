// A vision transformer (Dosovitskiy et al. 2021): patches as tokens after a class token, pre-norm
// blocks, a linear head on the class token.
//
// Shapes: B images of the micro-batch, P pixels of a patch's side, T patches + 1 tokens, C width.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/images.h"
#include "architectures/transformer.h"

#include "trireme/core/text.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <cmath>

namespace trireme::model {
namespace {

constexpr double kNormEpsilon = 1e-6;

std::int64_t tokens(const config::VitSpec& spec) {
  const std::int64_t side = spec.image_size / spec.patch;
  return side * side + 1;
}

std::int64_t patch_values(const config::VitSpec& spec) {
  return std::int64_t{spec.channels} * spec.patch * spec.patch;
}

/// Images to [B, T, C]. The tape: dropout's mask.
Part embedding(const PartBuilder& build, const config::VitSpec& spec) {
  const std::int64_t C = spec.width, P = spec.patch;
  const auto inputs = static_cast<double>(patch_values(spec));
  const at::Tensor weight =
      build.normal("patch.weight", {C, spec.channels, P, P}, std::sqrt(1.0 / inputs));
  const at::Tensor bias = build.constant("patch.bias", {C}, 0);
  const at::Tensor start = build.normal("class.weight", {C}, kDeviation);
  const at::Tensor position = build.normal("position.weight", {tokens(spec), C}, kDeviation);
  return [weight, bias, start, position, spec](Values input, const Context& context) -> Values {
    const at::Tensor patches_BTC =
        at::conv2d(input[0], weight, bias, /*stride=*/spec.patch).flatten(2).transpose(1, 2);
    const at::Tensor start_B1C = start.expand({patches_BTC.size(0), 1, -1});
    const at::Tensor x_BTC =
        at::cat({start_B1C.to(patches_BTC.scalar_type()), patches_BTC}, 1) + position;
    return {dropout(x_BTC, spec.dropout, context)};
  };
}

/// [B, T, C] to the mean cross-entropy of the class.
Part head(const PartBuilder& build, const config::VitSpec& spec) {
  const Norm norm = add_norm(build, "norm", spec.width, kNormEpsilon);
  const Linear classify = add_linear(build, "linear", spec.width, spec.classes, kDeviation);
  return [norm, classify](Values input, const Context& context) -> Values {
    const at::Tensor class_BC = input[0].select(1, 0);
    return {cross_entropy(classify(norm(class_BC, context), context), context.target.at(0))};
  };
}

}  // namespace

ChainModel make_vit(const config::VitSpec& spec) {
  const auto T = static_cast<double>(tokens(spec)), C = static_cast<double>(spec.width);
  ChainModel model =
      image_chain(concat("vit-", spec.blocks, "x", spec.width, "-", spec.patch), spec);
  model.layers.push_back(
      layer_of("embedding", "embedding", T * C * static_cast<double>(patch_values(spec)),
               [spec](const PartBuilder& build) { return embedding(build, spec); }));
  add_transformer_blocks(model,
                         {.blocks = spec.blocks,
                          .width = spec.width,
                          .heads = spec.heads,
                          .tokens = tokens(spec),
                          .dropout = spec.dropout,
                          .is_causal = false,
                          .gelu = "none",
                          .norm_epsilon = kNormEpsilon},
                         spec.grain);
  model.layers.push_back(layer_of("head", "head", C * spec.classes,
                                  [spec](const PartBuilder& build) { return head(build, spec); }));
  return model;
}

}  // namespace trireme::model
