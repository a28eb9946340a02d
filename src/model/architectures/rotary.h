// Rotary positions (Su et al. 2021): pairs of values are turned by angles that grow with the
// position.
//
// Shapes: B examples of the micro-batch, T tokens, D values of a head, I = D / 2 pairs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::model {

/// Cosine and sine of position x speed.
struct Angles {
  at::Tensor cos_T1I, sin_T1I;
};

/// The angles of `tokens` positions from `first` on.
Angles angles(std::int64_t first, std::int64_t tokens, const config::LlamaSpec& spec,
              const at::TensorOptions& options);

/// Rotates the pairs (i, i + D/2) of every head by their angle: [B, T, heads x D] to [B, T, heads,
/// D].
at::Tensor turned(const at::Tensor& x, std::int64_t heads, const Angles& by);

}  // namespace trireme::model
