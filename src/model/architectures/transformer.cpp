// Shapes: B examples of the micro-batch, T tokens, C width, H heads, D = C / H.
//
// Between parts, x is the residual and the last member. If parts are layers, qkv, core and up pass
// x through.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/transformer.h"

#include "architectures/attention.h"
#include "device/device_products.h"

#include "trireme/core/text.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <cmath>

namespace trireme::model {
namespace {

/// x to {q k v, x}. The tape: norm(x) and two numbers per token.
Part qkv(const PartBuilder& build, const BlockShape& shape);
/// {q k v, x} to {attended, x}. The tape: attended and a number per head and token.
Part core(const BlockShape& shape);
/// {attended, x} to x + dropout(projection(attended)). The tape: dropout's mask.
Part projection(const PartBuilder& build, const BlockShape& shape);
/// x to {up(norm(x)), x}. The tape: norm(x) and two numbers per token.
Part up(const PartBuilder& build, const BlockShape& shape);
/// {h, x} to x + dropout(down(gelu(h))). The tape: gelu(h) and dropout's mask.
Part down(const PartBuilder& build, const BlockShape& shape);

/// The projections that end a residual branch start smaller, so that the sum over 2 x blocks
/// branches keeps its variance (Radford et al. 2019).
double residual_deviation(const BlockShape& shape) {
  return kDeviation / std::sqrt(2.0 * shape.blocks);
}

}  // namespace

void add_transformer_blocks(ChainModel& model, const BlockShape& shape, const std::string& grain) {
  const auto T = static_cast<double>(shape.tokens), C = static_cast<double>(shape.width);
  const double scores = (shape.is_causal ? 1 : 2) * T * T * C;
  const std::vector<PartRecipe> parts{
      {.place = "attention",
       .name = "qkv",
       .work = 3 * T * C * C,
       .build = [shape](const PartBuilder& build) { return qkv(build, shape); }},
      {.place = "attention",
       .name = "core",
       .work = scores,
       .build = [shape](const PartBuilder&) { return core(shape); }},
      {.place = "attention",
       .name = "projection",
       .work = T * C * C,
       .build = [shape](const PartBuilder& build) { return projection(build, shape); }},
      {.place = "mlp",
       .name = "up",
       .work = 4 * T * C * C,
       .build = [shape](const PartBuilder& build) { return up(build, shape); }},
      {.place = "mlp",
       .name = "down",
       .work = 4 * T * C * C,
       .build = [shape](const PartBuilder& build) { return down(build, shape); }}};
  for (int block = 0; block < shape.blocks; ++block)
    add_block(model, concat("block", block), parts, grain);
}

namespace {

Part qkv(const PartBuilder& build, const BlockShape& shape) {
  const Norm norm = add_norm(build, "norm", shape.width, shape.norm_epsilon);
  const Linear qkv = add_linear(build, "qkv", shape.width, 3 * shape.width, kDeviation, shape.lora);
  return [norm, qkv](Values input, const Context& context) -> Values {
    return norm.into({&qkv}, take(input, 0), context);
  };
}

Part core(const BlockShape& shape) {
  return [shape](Values input, const Surroundings& around) -> Values {
    const auto each_BTHD = queries_keys_values(take(input, 0), shape.heads);
    const at::Tensor &q_BTHD = each_BTHD[0], &k_BTHD = each_BTHD[1], &v_BTHD = each_BTHD[2];
    return {shape.is_causal ? causal_attention(q_BTHD, k_BTHD, v_BTHD, around)
                            : attention(q_BTHD, k_BTHD, v_BTHD, /*is_causal=*/false),
            take(input, 1)};
  };
}

Part projection(const PartBuilder& build, const BlockShape& shape) {
  const Linear projection = add_linear(build, "projection", shape.width, shape.width,
                                       residual_deviation(shape), shape.lora);
  return [projection, shape](Values input, const Context& context) -> Values {
    const at::Tensor x_BTC = take(input, 1);
    return {x_BTC + dropout(projection(take(input, 0), context), shape.dropout, context)};
  };
}

Part up(const PartBuilder& build, const BlockShape& shape) {
  const Norm norm = add_norm(build, "norm", shape.width, shape.norm_epsilon);
  const Linear up = add_linear(build, "up", shape.width, 4 * shape.width, kDeviation, shape.lora);
  return [norm, up](Values input, const Context& context) -> Values {
    return norm.into({&up}, take(input, 0), context);
  };
}

Part down(const PartBuilder& build, const BlockShape& shape) {
  const Linear down = add_linear(build, "down", 4 * shape.width, shape.width,
                                 residual_deviation(shape), shape.lora);
  return [down, shape](Values input, const Context& context) -> Values {
    const at::Tensor y_BTC = down.of_gelu(take(input, 0), shape.gelu, context);
    return {take(input, 1) + dropout(y_BTC, shape.dropout, context)};
  };
}

}  // namespace
}  // namespace trireme::model
