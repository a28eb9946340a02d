// Rotary positions (Su et al. 2021): pairs of values are turned by angles that grow with the
// position.
//
// Shapes: B examples of the micro-batch, T tokens, D values of a head, the first R of which are
// rotated, I = R / 2 pairs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace trireme::model {

/// How positions turn the pairs of a head; scaling as config::LlamaSpec describes it.
struct Rotation {
  int values = 0;  ///< R
  double base = 0;
  std::string scaling = "none";
  double factor = 1, low_turns = 0, high_turns = 0, original_context = 0;
  double length = 1;  ///< rotated values are multiplied by this
};

/// The rotation in block number `block`.
Rotation rotation_of(const config::LlamaSpec& spec, int block);

/// Cosine and sine of position x speed: of T positions, or of those of all B x T tokens.
struct Angles {
  at::Tensor cos_T1I, sin_T1I;
};

/// The angles of `tokens` positions from `first` on.
Angles angles(std::int64_t first, std::int64_t tokens, const Rotation& rotation,
              const at::TensorOptions& options);

/// Rotates the pairs (i, i + R/2) of every head by their angle: [B, T, heads x D] to [B, T, heads,
/// D].
at::Tensor turned(const at::Tensor& x, std::int64_t heads, const Angles& by);

}  // namespace trireme::model
