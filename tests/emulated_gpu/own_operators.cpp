// SPDX-License-Identifier: Apache-2.0
#include "own_operators.h"

#include "kernels/schemas.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>
#include <torch/library.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <tuple>

namespace emulated {
namespace {

at::Tensor log_likelihood(at::Tensor& logits, const at::Tensor& target, bool gradients) {
  const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble), -1);
  const at::Tensor is_masked = (target == -100).unsqueeze(1);
  const at::Tensor at_target = target.unsqueeze(1).masked_fill(is_masked, 0);
  const at::Tensor of_target = log_p.gather(1, at_target).masked_fill_(is_masked, 0);
  if (gradients)
    logits.copy_(log_p.exp().scatter(1, at_target, of_target.expm1()).masked_fill_(is_masked, 0));
  return of_target.squeeze(1).to(at::kFloat);
}

at::Tensor wide(const at::Tensor& value) {
  return value.to(at::kDouble);
}

/// Partial sums over rows, in a single part.
at::Tensor parts_of(const at::Tensor& wide_rows) {
  return wide_rows.flatten(0, -2).sum(0, /*keepdim=*/true).to(at::kFloat);
}

at::Tensor column_parts(const at::Tensor& x) {
  return parts_of(wide(x));
}

void sum_parts(at::TensorList sums, at::TensorList parts, at::IntArrayRef begins,
               const c10::List<bool>& is_first) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const at::Tensor found =
        parts[i].narrow(1, begins[i], sums[i].numel()).sum(0).view(sums[i].sizes());
    is_first.get(i) ? sums[i].copy_(found) : sums[i].add_(found);
  }
}

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;

Two side_by_side(const at::Tensor& x0, const at::Tensor& x1, const at::Tensor& x2) {
  const at::Tensor y = at::cat({x0, x1, x2}, -1);
  return {y, parts_of(wide(y))};
}

/// Means and scales are rounded before they are used, so that a backward recomputes the same
/// result.
Three layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                 double epsilon) {
  const at::Tensor exact = wide(x).mean(-1, true), off = wide(x) - exact;
  const at::Tensor mean = exact.to(at::kFloat);
  const at::Tensor scale = (off * off).mean(-1, true).add(epsilon).rsqrt().to(at::kFloat);
  const at::Tensor h = (wide(x) - wide(mean)) * wide(scale);
  return {(h * wide(weight) + wide(bias)).to(x.scalar_type()), mean, scale};
}

Two rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor scale = (wide(x) * wide(x)).mean(-1, true).add(epsilon).rsqrt().to(at::kFloat);
  return {(wide(x) * wide(scale) * wide(weight)).to(x.scalar_type()), scale};
}

/// The backward of both norms.
Two norm_backward(const at::Tensor& dy, const at::Tensor& x, const std::optional<at::Tensor>& means,
                  const at::Tensor& scales, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& more,
                  at::Tensor& dx, bool again) {
  const bool is_centred = means && means->defined();
  const at::Tensor h = (is_centred ? wide(x) - wide(*means) : wide(x)) * wide(scales);
  const at::Tensor g = wide(dy) * wide(weight);
  at::Tensor found = g - h * (g * h).mean(-1, true);
  if (is_centred) found = found - g.mean(-1, true);
  found = found * wide(scales);
  if (more) found = found + wide(*more);
  const at::Tensor parts =
      parts_of(is_centred ? at::cat({wide(dy) * h, wide(dy)}, -1) : wide(dy) * h);
  at::Tensor y;
  if (again) y = is_centred ? h * wide(weight) + wide(*bias) : h * wide(weight);
  dx.copy_(found);
  return {again ? y.to(x.scalar_type()) : y, parts};
}

at::Tensor turn(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines,
                std::int64_t heads, bool back) {
  const at::Tensor x_BTHD = wide(x).unflatten(2, at::IntArrayRef{heads, -1});
  const at::Tensor cosine = wide(cosines), sine = wide(sines) * (back ? -1 : 1);
  const auto halves = x_BTHD.chunk(2, -1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1)
      .flatten(2)
      .to(x.scalar_type());
}

const char* kind(bool is_tanh) {
  return is_tanh ? "tanh" : "none";
}

at::Tensor gelu(const at::Tensor& x, bool is_tanh) {
  return at::gelu(wide(x), kind(is_tanh)).to(x.scalar_type());
}

Two gelu_backward(at::Tensor& dy, const at::Tensor& x, bool is_tanh, bool again) {
  dy.copy_(at::gelu_backward(wide(dy), wide(x), kind(is_tanh)));
  return {again ? gelu(x, is_tanh) : at::Tensor(), column_parts(dy.flatten(0, -2))};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return (at::silu(wide(gate)) * wide(up)).to(gate.scalar_type());
}

Two swiglu_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor s = at::sigmoid(wide(gate));
  return {(wide(dy) * wide(up) * s * (1 + wide(gate) * (1 - s))).to(gate.scalar_type()),
          (wide(dy) * wide(gate) * s).to(up.scalar_type())};
}

void accumulate(at::Tensor& sum, const at::Tensor& x, bool is_first) {
  is_first ? sum.copy_(x) : sum.add_(x);
}

void add_product(at::Tensor& sum, const at::Tensor& dy, const at::Tensor& x, bool is_first) {
  accumulate(sum, at::mm(wide(dy).t(), wide(x)).to(at::kFloat), is_first);
}

/// Computed per value in double and rounded once.
void adamw(at::TensorList values, at::TensorList gradients, at::TensorList first,
           at::TensorList second, at::TensorList weights, double rate, double decay, double beta1,
           double beta2, double epsilon, std::int64_t step,
           const std::optional<at::Tensor>& divisor) {
  const auto times = static_cast<double>(step);
  const double correction1 = 1 - std::pow(beta1, times), correction2 = 1 - std::pow(beta2, times);
  for (std::size_t i = 0; i < values.size(); ++i) {
    at::Tensor g = wide(gradients[i]);
    if (divisor) g = g / wide(*divisor);
    const at::Tensor m = beta1 * wide(first[i]) + (1 - beta1) * g;
    const at::Tensor v = beta2 * wide(second[i]) + (1 - beta2) * g * g;
    const at::Tensor root = (v / correction2).sqrt() + epsilon;
    values[i].copy_((1 - rate * decay) * wide(values[i]) - rate / correction1 * m / root);
    first[i].copy_(m);
    second[i].copy_(v);
    if (!weights.empty()) weights[i].copy_(values[i]);
  }
}

}  // namespace

bool wants_own_operators() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
  const char* const asked = std::getenv("TRIREME_OWN_KERNELS");
  return asked == nullptr || std::string_view(asked) != "0";
}

std::vector<std::string> define_own_operators() {
  using namespace trireme::kernels;
  // Never freed: LibTorch's dispatcher may be gone before.
  static torch::Library& library =
      *new torch::Library(torch::Library::DEF, "trireme", std::nullopt, __FILE__, __LINE__);
  std::vector<std::string> names;
  const auto define = [&](const std::string& schema, auto* function) {
    library.def(schema.c_str());
    names.push_back(schema.substr(0, schema.find('(')));
    for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::Meta})
      library.impl(names.back().c_str(), torch::dispatch(key, function));
  };
  define(kLogLikelihood, log_likelihood);
  define(kColumnParts, column_parts);
  define(kSumParts, sum_parts);
  define(kSideBySide, side_by_side);
  define(kLayerNorm, layer_norm);
  define(kRmsNorm, rms_norm);
  define(kNormBackward, norm_backward);
  define(kTurn, turn);
  define(kGelu, gelu);
  define(kGeluBackward, gelu_backward);
  define(kSwiglu, swiglu);
  define(kSwigluBackward, swiglu_backward);
  define(kAccumulate, accumulate);
  define(kAddProduct, add_product);
  define(kAdamw, adamw);
  return names;
}

}  // namespace emulated
