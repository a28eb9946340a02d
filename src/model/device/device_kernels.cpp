// SPDX-License-Identifier: Apache-2.0
#include "device/device_kernels.h"

#include "trireme/core/error.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <tuple>

namespace trireme::model {
namespace {

using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Values and alignment of one vectorized memory access.
constexpr std::int64_t kValues = 8;
constexpr std::uintptr_t kAlignment = 16;
/// A thread handles kValues of a row; a block has 1024 threads.
constexpr std::int64_t kWidestNorm = 1024 * kValues;

/// Calls a dispatcher operator below autograd. Not available before a GPU has been opened.
template <class Signature>
class DeviceOperator {
 public:
  explicit DeviceOperator(const char* name) {
    if (const auto found = c10::Dispatcher::singleton().findSchema({name, ""}))
      handle_ = found->typed<Signature>();
  }

  explicit operator bool() const { return handle_.has_value(); }
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return handle_->call(std::forward<Arguments>(arguments)...);
  }

 private:
  std::optional<c10::TypedOperatorHandle<Signature>> handle_;
};

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kAlignment == 0;
}

/// Whether x is bfloat16 on a GPU and contiguous.
bool is_plain(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.is_contiguous();
}

/// Whether x can be a gradient sum.
bool is_sum(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kFloat && x.is_contiguous() && is_aligned(x);
}

bool are_in_eights(std::initializer_list<at::Tensor> all) {
  for (const at::Tensor& x : all)
    if (!is_plain(x) || !is_aligned(x) || x.size(-1) % kValues != 0 || x.numel() == 0) return false;
  return true;
}

}  // namespace

std::optional<at::Tensor> device_log_likelihood(at::Tensor& logits_NV, const at::Tensor& target_N,
                                                bool gradients) {
  if (!is_plain(logits_NV) || !target_N.is_contiguous()) return std::nullopt;
  const DeviceOperator<at::Tensor(at::Tensor&, const at::Tensor&, bool)> log_likelihood(
      "trireme::log_likelihood_");
  if (!log_likelihood) return std::nullopt;
  return log_likelihood(logits_NV, target_N, gradients);
}

std::optional<at::Tensor> device_column_parts(const at::Tensor& x_NC) {
  if (!are_in_eights({x_NC})) return std::nullopt;
  const DeviceOperator<at::Tensor(const at::Tensor&)> column_parts("trireme::column_parts");
  if (!column_parts) return std::nullopt;
  return column_parts(x_NC);
}

std::optional<SideBySide> device_side_by_side(const at::Tensor& x0, const at::Tensor& x1,
                                              const at::Tensor& x2) {
  if (!are_in_eights({x0, x1, x2}) || x0.sizes() != x1.sizes() || x0.sizes() != x2.sizes())
    return std::nullopt;
  const DeviceOperator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&)> side_by_side(
      "trireme::side_by_side");
  if (!side_by_side) return std::nullopt;
  auto [y, parts] = side_by_side(x0, x1, x2);
  return SideBySide{std::move(y), std::move(parts)};
}

void device_sum_parts(const std::vector<PartSum>& all) {
  std::vector<at::Tensor> sums, parts;
  std::vector<std::int64_t> begins;
  c10::List<bool> is_first;
  for (const PartSum& one : all) {
    ensure(one.sums.is_contiguous() && one.begin + one.sums.numel() <= one.parts.size(1),
           "as many as there are");
    sums.push_back(one.sums);
    parts.push_back(one.parts);
    begins.push_back(one.begin);
    is_first.push_back(one.is_first);
  }
  const DeviceOperator<void(at::TensorList, at::TensorList, at::IntArrayRef,
                            const c10::List<bool>&)>
      sum_parts("trireme::sum_parts_");
  sum_parts(sums, parts, begins, is_first);
}

namespace {
using LayerNorm =
    DeviceOperator<Three(const at::Tensor&, const at::Tensor&, const at::Tensor&, double)>;
using RmsNorm = DeviceOperator<Two(const at::Tensor&, const at::Tensor&, double)>;
constexpr const char *kLayerNorm = "trireme::layer_norm", *kRmsNorm = "trireme::rms_norm";
}  // namespace

bool has_device_norm(const at::Tensor& x, const at::Tensor& weight_C, const at::Tensor& bias_C) {
  if (!are_in_eights({x}) || x.size(-1) > kWidestNorm || !is_plain(weight_C)) return false;
  if (!bias_C.defined()) return static_cast<bool>(RmsNorm(kRmsNorm));
  return is_plain(bias_C) && static_cast<bool>(LayerNorm(kLayerNorm));
}

std::optional<Normed> device_norm(const at::Tensor& x, const at::Tensor& weight_C,
                                  const at::Tensor& bias_C, double epsilon) {
  if (!has_device_norm(x, weight_C, bias_C)) return std::nullopt;
  if (!bias_C.defined()) {
    auto [y, scales] = RmsNorm(kRmsNorm)(x, weight_C, epsilon);
    return Normed{std::move(y), {}, std::move(scales)};
  }
  auto [y, means, scales] = LayerNorm(kLayerNorm)(x, weight_C, bias_C, epsilon);
  return Normed{std::move(y), std::move(means), std::move(scales)};
}

NormGradient device_norm_backward(at::Tensor dy, const NormTape& tape, const at::Tensor& more,
                                  NormResult result, bool into_dy) {
  const at::Tensor added = more.defined() ? more.contiguous() : more;
  ensure(are_in_eights({dy, tape.x}) && (!added.defined() || are_in_eights({added})),
         "gradients are as their values");
  using Maybe = const std::optional<at::Tensor>&;
  const auto maybe = [](const at::Tensor& x) {
    return x.defined() ? std::optional(x) : std::nullopt;
  };
  const DeviceOperator<Two(const at::Tensor&, const at::Tensor&, Maybe, const at::Tensor&,
                           const at::Tensor&, Maybe, Maybe, at::Tensor&, bool)>
      backward("trireme::norm_backward");
  at::Tensor dx = into_dy ? dy : at::empty_like(dy);
  auto [y, parts] =
      backward(dy, tape.x, maybe(tape.normed.means), tape.normed.scales, tape.weight_C,
               maybe(tape.bias_C), maybe(added), dx, result == NormResult::kAgain);
  return {std::move(dx), std::move(y), std::move(parts)};
}

std::optional<at::Tensor> device_turn(const at::Tensor& x, const at::Tensor& cosines,
                                      const at::Tensor& sines, std::int64_t heads, bool back) {
  if (!are_in_eights({x}) || x.dim() != 3 || cosines.size(-1) % kValues != 0) return std::nullopt;
  for (const at::Tensor& angles : {cosines, sines})
    if (angles.scalar_type() != at::kFloat || !angles.is_contiguous() || !is_aligned(angles) ||
        angles.size(0) != x.size(1))
      return std::nullopt;
  const DeviceOperator<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                  std::int64_t, bool)>
      turn("trireme::turn");
  if (!turn) return std::nullopt;
  return turn(x, cosines, sines, heads, back);
}

namespace {
using Gelu = DeviceOperator<at::Tensor(const at::Tensor&, bool)>;
constexpr const char* kGelu = "trireme::gelu";
}  // namespace

bool has_device_gelu(const at::Tensor& x) {
  return are_in_eights({x}) && static_cast<bool>(Gelu(kGelu));
}

at::Tensor device_gelu(const at::Tensor& x, bool is_tanh) {
  return Gelu(kGelu)(x, is_tanh);
}

GeluGradient device_gelu_backward(at::Tensor& dy, const at::Tensor& x, bool is_tanh, bool again) {
  ensure(are_in_eights({dy, x}), "gradients are as their values");
  const DeviceOperator<Two(at::Tensor&, const at::Tensor&, bool, bool)> backward(
      "trireme::gelu_backward_");
  auto [y, parts] = backward(dy, x, is_tanh, again);
  return {std::move(y), std::move(parts)};
}

std::optional<at::Tensor> device_swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (!are_in_eights({gate, up})) return std::nullopt;
  const DeviceOperator<at::Tensor(const at::Tensor&, const at::Tensor&)> swiglu("trireme::swiglu");
  if (!swiglu) return std::nullopt;
  return swiglu(gate, up);
}

std::optional<SwigluGradients> device_swiglu_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                      const at::Tensor& up) {
  if (!are_in_eights({dy, gate, up})) return std::nullopt;
  const DeviceOperator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&)> backward(
      "trireme::swiglu_backward");
  if (!backward) return std::nullopt;
  auto [of_gate, of_up] = backward(dy, gate, up);
  return SwigluGradients{std::move(of_gate), std::move(of_up)};
}

bool device_accumulate(at::Tensor& sum, const at::Tensor& x, bool is_first) {
  if (!is_plain(x) || !is_aligned(x) || !is_sum(sum) || sum.numel() != x.numel()) return false;
  const DeviceOperator<void(at::Tensor&, const at::Tensor&, bool)> accumulate(
      "trireme::accumulate_");
  if (accumulate) accumulate(sum, x, is_first);
  return static_cast<bool>(accumulate);
}

bool device_add_product(at::Tensor& sum_OI, const at::Tensor& dy_NO, const at::Tensor& x_NI,
                        bool is_first) {
  if (!are_in_eights({dy_NO, x_NI}) || !is_sum(sum_OI) ||
      sum_OI.sizes() != at::IntArrayRef{dy_NO.size(1), x_NI.size(1)})
    return false;
  const DeviceOperator<void(at::Tensor&, const at::Tensor&, const at::Tensor&, bool)> add_product(
      "trireme::add_product_");
  if (add_product) add_product(sum_OI, dy_NO, x_NI, is_first);
  return static_cast<bool>(add_product);
}

bool device_adamw(const UpdateGroup& group, const config::OptimizerSpec& spec, double rate,
                  std::int64_t step, const at::Tensor& divisor) {
  const auto are_floats = [](const std::vector<at::Tensor>& all) {
    return std::all_of(all.begin(), all.end(), [](const at::Tensor& one) {
      return one.is_cuda() && one.scalar_type() == at::kFloat && one.is_contiguous();
    });
  };
  const bool has_weights = group.weights.size() == group.values.size();
  if (!has_weights && !group.weights.empty()) return false;
  if (!are_floats(group.values) || !are_floats(group.gradients) ||
      !are_floats(group.first_moments) || !are_floats(group.second_moments) ||
      !std::all_of(group.weights.begin(), group.weights.end(), is_plain))
    return false;
  const DeviceOperator<void(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                            at::TensorList, double, double, double, double, double, std::int64_t,
                            const std::optional<at::Tensor>&)>
      adamw("trireme::adamw_");
  if (!adamw) return false;
  adamw(group.values, group.gradients, group.first_moments, group.second_moments, group.weights,
        rate, group.decay, spec.beta1, spec.beta2, spec.epsilon, step,
        divisor.defined() ? std::optional(divisor) : std::nullopt);
  return true;
}

}  // namespace trireme::model
