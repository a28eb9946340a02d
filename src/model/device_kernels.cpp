// SPDX-License-Identifier: Apache-2.0
#include "device_kernels.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <initializer_list>
#include <tuple>

namespace trireme::model {
namespace {

/// What one access of a kernel takes.
constexpr std::int64_t kValues = 8;
constexpr std::uintptr_t kAlignment = 16;
/// A thread has kValues of a row, a block 640 threads.
constexpr std::int64_t kWidestNorm = 640 * kValues;

/// Called as operators below autograd. Not there before a GPU has been opened.
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

/// In bfloat16 on a GPU, without gaps.
bool is_plain(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.is_contiguous();
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

std::optional<at::Tensor> device_column_sums(const at::Tensor& x_NC) {
  if (!are_in_eights({x_NC})) return std::nullopt;
  const DeviceOperator<at::Tensor(const at::Tensor&)> column_sums("trireme::column_sums");
  if (!column_sums) return std::nullopt;
  return column_sums(x_NC);
}

std::optional<NormGradients> device_layer_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                        const at::Tensor& means,
                                                        const at::Tensor& scales,
                                                        const at::Tensor& weight_C) {
  if (!are_in_eights({dy, x, weight_C}) || weight_C.numel() > kWidestNorm) return std::nullopt;
  if (!means.is_contiguous() || !scales.is_contiguous() || means.scalar_type() != at::kFloat)
    return std::nullopt;
  using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  const DeviceOperator<Gradients(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                 const at::Tensor&, const at::Tensor&)>
      backward("trireme::layer_norm_backward");
  if (!backward) return std::nullopt;
  auto [of_x, of_weight, of_bias] = backward(dy, x, means, scales, weight_C);
  return NormGradients{std::move(of_x), std::move(of_weight), std::move(of_bias)};
}

bool device_accumulate(at::Tensor& sum, const at::Tensor& x, bool is_first) {
  if (!is_plain(x) || !is_aligned(x) || !is_aligned(sum)) return false;
  if (sum.scalar_type() != at::kFloat || !sum.is_contiguous() || sum.numel() != x.numel())
    return false;
  const DeviceOperator<void(at::Tensor&, const at::Tensor&, bool)> accumulate(
      "trireme::accumulate_");
  if (accumulate) accumulate(sum, x, is_first);
  return static_cast<bool>(accumulate);
}

}  // namespace trireme::model
