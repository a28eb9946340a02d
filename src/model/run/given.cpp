// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/given.h"

#include <ATen/ATen.h>

#include <vector>

namespace trireme::model {

std::string types_text(const Values& values) {
  std::vector<std::string> texts;
  for (const at::Tensor& value : values) {
    std::vector<std::string> sizes;
    if (value.defined())
      for (const std::int64_t size : value.sizes()) sizes.push_back(concat(size));
    texts.push_back(value.defined() ? concat(value.scalar_type(), " [", join(sizes, ", "), "]")
                                    : "no tensor");
  }
  return texts.empty() ? "nothing" : join(texts, ", ");
}

void require_output(const Values& output, const Context& context) {
  const auto fail = [&](const std::string& expected) {
    throw InputError(concat("forward gave ", types_text(output), ", must give ", expected));
  };
  if (output.empty()) fail("a tensor or several");
  for (const at::Tensor& value : output) {
    if (!value.defined()) fail("tensors alone");
    if (value.layout() != at::kStrided || value.is_quantized() || value.is_nested())
      fail("dense tensors: one is sparse, quantized or nested");
    if (value.is_complex())
      fail(
          "real numbers, for gradients of complex ones are not passed on: give "
          "torch.view_as_real(x)");
  }
  if (context.target.empty()) return;
  const bool is_loss =
      output.size() == 1 && output[0].numel() == 1 && output[0].is_floating_point();
  if (!is_loss)
    fail(
        "the mean loss of the micro-batch, one floating number, for it is the last layer: as "
        "torch.nn.functional.cross_entropy(logits, target) does, with its default reduction");
}

}  // namespace trireme::model
