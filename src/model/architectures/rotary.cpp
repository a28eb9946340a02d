// SPDX-License-Identifier: Apache-2.0
#include "architectures/rotary.h"

#include "device/device_functions.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace trireme::model {
namespace {

using config::LlamaSpec;

/// Rotation speed in radians per token of the pairs i of a head: base^(-2i / D), scaled as
/// LlamaSpec describes.
at::Tensor speeds(const LlamaSpec& spec, const at::TensorOptions& options) {
  const int head_width = spec.width / spec.heads;
  const at::Tensor pairs = at::arange(0, head_width, 2, options) / static_cast<double>(head_width);
  const at::Tensor speed = at::exp(pairs * -std::log(spec.rope_base));
  if (spec.rope_scaling == "none") return speed;
  const at::Tensor slowed = speed / spec.rope_factor;
  if (spec.rope_scaling == "linear") return slowed;
  ensure(spec.rope_scaling == "llama3", "scaling is none, linear or llama3");
  const at::Tensor turns = speed * (spec.rope_original_context / (2 * std::numbers::pi));
  const at::Tensor kept =
      at::clamp((turns - spec.rope_low_turns) / (spec.rope_high_turns - spec.rope_low_turns), 0, 1);
  return kept * speed + (1 - kept) * slowed;
}

}  // namespace

Angles angles(std::int64_t first, std::int64_t tokens, const LlamaSpec& spec,
              const at::TensorOptions& options) {
  const at::TensorOptions exact = options.dtype(at::kDouble);
  const at::Tensor angle =
      at::outer(at::arange(first, first + tokens, exact), speeds(spec, exact)).unsqueeze(1);
  return {.cos_T1I = at::cos(angle).to(options), .sin_T1I = at::sin(angle).to(options)};
}

at::Tensor turned(const at::Tensor& x, std::int64_t heads, const Angles& by) {
  if (const auto own = own_turned(x, heads, by.cos_T1I, by.sin_T1I)) return *own;
  const std::int64_t half = x.size(2) / heads / 2;
  const at::Tensor x_BTHD = x.unflatten(2, at::IntArrayRef{heads, 2 * half});
  const at::Tensor first = x_BTHD.narrow(3, 0, half), second = x_BTHD.narrow(3, half, half);
  return at::cat(
             {first * by.cos_T1I - second * by.sin_T1I, second * by.cos_T1I + first * by.sin_T1I},
             3)
      .to(x.scalar_type());
}

}  // namespace trireme::model
