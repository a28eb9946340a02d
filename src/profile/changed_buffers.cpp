// SPDX-License-Identifier: Apache-2.0
#include "changed_buffers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace trireme::profile {
namespace {

model::Values copies_of_buffers(const model::Layer& layer) {
  model::Values copies;
  for (const model::Buffer& buffer : layer.buffers()) copies.push_back(buffer.value.clone());
  return copies;
}

/// NaN equals NaN: a layer may return it whatever its buffers are.
bool are_equal(const model::Values& a, const model::Values& b) {
  const auto is_equal = [](const at::Tensor& x, const at::Tensor& y) {
    return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
           at::all((x == y).logical_or((x != x).logical_and(y != y))).item<bool>();
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_equal);
}

model::Values output_of(const Subject& subject) {
  at::Generator generator = subject.context.generator;
  generator.set_current_seed(1);
  return model::untaped_forward(subject.layer, subject.input, subject.context, subject.precision);
}

}  // namespace

bool gives_what_it_has_changed(const Subject& subject) {
  const at::NoGradGuard no_grad;
  const auto& buffers = subject.layer.buffers();
  if (buffers.empty()) return false;
  const model::Values before = copies_of_buffers(subject.layer);
  const model::Values first = output_of(subject);
  const bool is_changed = !are_equal(before, copies_of_buffers(subject.layer));
  const bool differs = is_changed && !are_equal(first, output_of(subject));
  for (std::size_t i = 0; i < buffers.size(); ++i)
    buffers[i].value.variable_data().copy_(before[i]);
  return differs;
}

}  // namespace trireme::profile
