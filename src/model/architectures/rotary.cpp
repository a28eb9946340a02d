// SPDX-License-Identifier: Apache-2.0
#include "architectures/rotary.h"

#include "device/device_functions.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::model {
namespace {

/// Which share of each pair's speed yarn keeps: all of pairs up to the one that makes `high_turns`
/// turns over the original context, none from the one that makes `low_turns` on (Peng et al. 2023,
/// with whole numbers of pairs, as all programs have them).
at::Tensor kept_by_yarn(const Rotation& rotation, const at::TensorOptions& options) {
  const auto pair_that_makes = [&](double turns) {
    return rotation.values * std::log(rotation.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rotation.base));
  };
  const double first = std::max(std::floor(pair_that_makes(rotation.high_turns)), 0.0);
  const double last =
      std::min(std::ceil(pair_that_makes(rotation.low_turns)), rotation.values - 1.0);
  constexpr double kStep = 0.001;  // of a ramp without length
  const at::Tensor pairs = at::arange(0, rotation.values / 2, options);
  return 1 - at::clamp((pairs - first) / (first == last ? kStep : last - first), 0, 1);
}

/// Rotation speed in radians per token of the pairs i of a head: base^(-2i / R), scaled.
at::Tensor speeds(const Rotation& rotation, const at::TensorOptions& options) {
  const at::Tensor pairs =
      at::arange(0, rotation.values, 2, options) / static_cast<double>(rotation.values);
  const at::Tensor speed = at::exp(pairs * -std::log(rotation.base));
  if (rotation.scaling == "none") return speed;
  const at::Tensor slowed = speed / rotation.factor;
  if (rotation.scaling == "linear") return slowed;
  if (rotation.scaling == "yarn") {
    const at::Tensor kept = kept_by_yarn(rotation, options);
    return kept * speed + (1 - kept) * slowed;
  }
  ensure(rotation.scaling == "llama3", "scaling is none, linear, llama3 or yarn");
  const at::Tensor turns = speed * (rotation.original_context / (2 * std::numbers::pi));
  const at::Tensor kept =
      at::clamp((turns - rotation.low_turns) / (rotation.high_turns - rotation.low_turns), 0, 1);
  return kept * speed + (1 - kept) * slowed;
}

}  // namespace

Rotation rotation_of(const config::LlamaSpec& spec, int block) {
  if (spec.window_of(block) && spec.window_rope_base)
    return {.values = spec.rotated_values(), .base = *spec.window_rope_base};
  return {.values = spec.rotated_values(),
          .base = spec.rope_base,
          .scaling = spec.rope_scaling,
          .factor = spec.rope_factor,
          .low_turns = spec.rope_low_turns,
          .high_turns = spec.rope_high_turns,
          .original_context = static_cast<double>(spec.rope_original_context),
          .length = spec.rope_scaling == "yarn" ? spec.rope_attention_factor : 1};
}

Angles angles(std::int64_t first, std::int64_t tokens, const Rotation& rotation,
              const at::TensorOptions& options) {
  const at::TensorOptions exact = options.dtype(at::kDouble);
  const at::Tensor angle =
      at::outer(at::arange(first, first + tokens, exact), speeds(rotation, exact)).unsqueeze(1);
  at::Tensor cosines = at::cos(angle), sines = at::sin(angle);
  if (rotation.length != 1) {
    cosines.mul_(rotation.length);
    sines.mul_(rotation.length);
  }
  return {.cos_T1I = cosines.to(options), .sin_T1I = sines.to(options)};
}

at::Tensor turned(const at::Tensor& x, std::int64_t heads, const Angles& by) {
  const std::int64_t half = by.cos_T1I.size(2), width = x.size(2) / heads;
  if (by.cos_T1I.size(0) != x.size(1))  // each token has angles of its own
    return turned(x.flatten(0, 1).unsqueeze(0), heads, by)
        .view({x.size(0), x.size(1), heads, width});
  if (2 * half < width) {
    const at::Tensor x_BTHD = x.unflatten(2, at::IntArrayRef{heads, width});
    const at::Tensor first = turned(x_BTHD.narrow(3, 0, 2 * half).flatten(2), heads, by);
    return at::cat({first, x_BTHD.narrow(3, 2 * half, width - 2 * half)}, 3);
  }
  if (const auto own = own_turned(x, heads, by.cos_T1I, by.sin_T1I)) return *own;
  const at::Tensor x_BTHD = x.unflatten(2, at::IntArrayRef{heads, width});
  const at::Tensor first = x_BTHD.narrow(3, 0, half), second = x_BTHD.narrow(3, half, half);
  return at::cat(
             {first * by.cos_T1I - second * by.sin_T1I, second * by.cos_T1I + first * by.sin_T1I},
             3)
      .to(x.scalar_type());
}

}  // namespace trireme::model
