// Building blocks of layers in addition to at:: operators: dropout that draws from the context's
// generator, operators that save less for backward than a composition would, initial values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace trireme::model {

/// `x` with a fraction `probability` of its values set to zero and the rest scaled by 1 / (1 -
/// probability); `x` itself if not training or the probability is 0. Saves one byte per value for
/// backward.
at::Tensor dropout(const at::Tensor& x, double probability, const Context& context);

/// Rows of `weight` [V, C], one per index. Gradients of equal indices add up in float32 whatever
/// the weight's type: LibTorch's CPU kernel adds those of bfloat16 in bfloat16, which loses a
/// frequent token's gradients from about the tenth on.
at::Tensor embed(const at::Tensor& weight, const at::Tensor& indices);

/// Mean cross-entropy of logits [N, classes] against classes [N], float32 also for bfloat16 logits.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target);

/// x / sqrt(mean of x^2 over the last dimension + epsilon) x weight (Zhang and Sennrich 2019).
/// Saves x, the weight and one value per row; computes in float32 if x is bfloat16.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

/// silu(gate) x up (Shazeer 2020). Saves both; silu(gate) is recomputed in backward.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
/// The same with at::gelu of this `approximation`.
at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up, const std::string& approximation);
/// The same with any activation of config::LlamaSpec: silu | gelu | gelu_tanh.
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, const std::string& activation);

/// Returns make(sources). With lean tapes the tape holds the sources instead of the value, and
/// backward recomputes it: for values that are cheap to compute from values that are saved anyway.
/// `make` must give the same bits every time and depend only on its sources and the layer's
/// parameters; the recomputation runs without autocast.
at::Tensor remade(Values sources, const Context& context,
                  std::function<at::Tensor(const Values& sources)> make);

/// The type in which matrix products with x are computed: bfloat16 under autocast, else that of x.
at::ScalarType product_type(const at::Tensor& x);

/// float32 normal values with mean 0, shape `sizes`.
at::Tensor normal(at::IntArrayRef sizes, double deviation, at::Generator generator);

}  // namespace trireme::model
