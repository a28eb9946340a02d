// What layers are made of beyond at:: operators: dropout that draws from the context's generator,
// operators that keep less for their backward than a composition would, initial values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"

#include <ATen/core/Tensor.h>

#include <functional>

namespace trireme::model {

/// `x` with a share `probability` of its values set to zero and the rest scaled by 1 / (1 -
/// probability); `x` itself when not training or the probability is 0. Keeps one byte per value for
/// its backward.
at::Tensor dropout(const at::Tensor& x, double probability, const Context& context);

/// Rows of `weight` [V, C], one per index. Gradients of equal indices add up in float32 whatever
/// the weight's type: LibTorch's CPU kernel adds those of bfloat16 in bfloat16, where the tenth of
/// a frequent token's gradients is already lost.
at::Tensor embed(const at::Tensor& weight, const at::Tensor& indices);

/// Mean cross-entropy of logits [N, classes] against classes [N], float32 also for bfloat16 logits.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target);

/// x / sqrt(mean of x^2 over the last dimension + epsilon) x weight (Zhang and Sennrich 2019).
/// Keeps x, the weight and one value per row; computes in float32 where x is bfloat16.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

/// silu(gate) x up (Shazeer 2020). Keeps both; silu(gate) is computed again in the backward.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// make(sources). With lean tapes a backward finds the sources in its tape instead of the value,
/// and makes this again: for values that are cheap to make from what is kept anyway. `make` must
/// give the same bits every time and depend on nothing but its sources and the layer's parameters;
/// it runs without autocast then.
at::Tensor remade(Values sources, const Context& context,
                  std::function<at::Tensor(const Values& sources)> make);

/// The type of matrix products with x: bfloat16 under autocast, else that of x.
at::ScalarType product_type(const at::Tensor& x);

/// float32 normal values with mean 0, shape `sizes`.
at::Tensor normal(at::IntArrayRef sizes, double deviation, at::Generator generator);

}  // namespace trireme::model
