// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/functional.h"

#include "device/device_functions.h"
#include "device/device_kernels.h"
#include "run/saved_tensors.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace trireme::model {
namespace {

/// at::dropout takes no generator and keeps a float per value; this one saves a bool. Forward and
/// backward are the same product x * mask * scale, for which LibTorch has an operator.
struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& mask, double scale) {
    context->save_for_backward({mask});
    context->saved_data["scale"] = scale;
    return at::native_dropout_backward(x, mask, scale);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor mask = context->get_saved_variables()[0];
    return {
        at::native_dropout_backward(gradients[0], mask, context->saved_data["scale"].toDouble()),
        {},
        {}};
  }
};

/// Converts x to float32 or wider.
at::Tensor wide(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& weight,
                            const at::Tensor& indices) {
    context->save_for_backward({indices});
    context->saved_data["rows"] = weight.size(0);
    return at::embedding(weight, indices);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor indices = context->get_saved_variables()[0];
    const at::Tensor gradient = at::embedding_dense_backward(
        wide(gradients[0]), indices, context->saved_data["rows"].toInt(), /*padding_idx=*/-1,
        /*scale_grad_by_freq=*/false);
    return {gradient.to(gradients[0].scalar_type()), {}};
  }
};

/// y = x r w with r = 1 / sqrt(mean(x^2) + epsilon), row by row.
struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, double epsilon) {
    const at::Tensor wide_x = wide(x);
    const at::Tensor scale = (wide_x * wide_x).mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
    context->save_for_backward({x, weight, scale});
    return (wide_x * scale).mul_(weight).to(x.scalar_type());
  }
  /// With h = dy w: dx = r h - r^3 x mean(h x), dw = the sum of dy x r over rows.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const at::Tensor unit = x * scale, dy = wide(gradients[0]);
    const at::Tensor weight_gradient = (dy * unit).flatten(0, -2).sum(0);
    const at::Tensor h = dy * weight;
    const at::Tensor along = (h * unit).mean(-1, /*keepdim=*/true);
    return {(h - unit * along).mul_(scale).to(x.scalar_type()),
            weight_gradient.to(weight.scalar_type()),
            {}};
  }
};

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    if (const auto own = device_swiglu(gate, up)) return *own;
    return at::silu(gate).mul_(up);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &dy = gradients[0];
    if (const auto own = device_swiglu_backward(dy, gate, up)) return {own->gate, own->up};
    return {at::silu_backward(dy * up, gate), at::silu(gate).mul_(dy)};
  }
};

struct GeGlu : torch::autograd::Function<GeGlu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up, const std::string& approximation) {
    context->save_for_backward({gate, up});
    context->saved_data["approximation"] = approximation;
    return at::gelu(gate, approximation).mul_(up);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const std::string approximation = context->saved_data["approximation"].toStringRef();
    const at::Tensor &gate = saved[0], &up = saved[1], &dy = gradients[0];
    return {at::gelu_backward(dy * up, gate, approximation),
            at::gelu(gate, approximation).mul_(dy),
            {}};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const Context& context) {
  if (!context.training || probability == 0) return x;
  const at::Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kBool).requires_grad(false))
                              .bernoulli_(1 - probability, context.generator);
  return Dropout::apply(x, mask, 1 / (1 - probability));
}

at::Tensor embed(const at::Tensor& weight, const at::Tensor& indices) {
  // On CUDA, LibTorch's own sums are in float32.
  if (weight.is_cuda() || weight.scalar_type() != at::kBFloat16)
    return at::embedding(weight, indices);
  return Embedding::apply(weight, indices);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target) {
  return at::cross_entropy_loss(wide(logits), target);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return rms_norm_with_input(x, weight, epsilon).y;
}

NormAndInput rms_norm_with_input(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (const auto own = own_rms_norm(x, weight, epsilon)) return *own;
  // On CUDA LibTorch has one fused kernel, which saves the same tensors.
  if (x.is_cuda()) return {at::rms_norm(x, {x.size(-1)}, weight, epsilon), x};
  return {RmsNorm::apply(x, weight, epsilon), x};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return SwiGlu::apply(gate, up);
}

at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up, const std::string& approximation) {
  return GeGlu::apply(gate, up, approximation);
}

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, const std::string& activation) {
  if (activation == "silu") return swiglu(gate, up);
  ensure(activation == "gelu" || activation == "gelu_tanh", "an activation is silu or a gelu");
  return geglu(gate, up, activation == "gelu" ? "none" : "tanh");
}

at::Tensor remade(Values sources, const Context& context,
                  std::function<at::Tensor(const Values& sources)> make) {
  at::Tensor value = make(sources);
  if (context.lean_tapes) RemakingScope::stand_in(value, std::move(sources), std::move(make));
  return value;
}

at::ScalarType product_type(const at::Tensor& x) {
  const c10::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

at::Tensor normal(at::IntArrayRef sizes, double deviation, at::Generator generator) {
  return at::empty(sizes, at::kFloat).normal_(0, deviation, std::move(generator));
}

}  // namespace trireme::model
