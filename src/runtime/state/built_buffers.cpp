// SPDX-License-Identifier: Apache-2.0
#include "state/built_buffers.h"

#include "state/tensor_bytes.h"
#include "state/tensor_types.h"

#include "trireme/checkpoint/numbers.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace trireme::runtime {

std::string no_number_in(const at::Tensor& value, bool is_constant) {
  const at::ScalarType type = value.scalar_type();
  const auto known = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
  if (std::find(known.begin(), known.end(), type) == known.end()) return {};
  const at::Tensor host = value.detach().cpu().contiguous();
  const auto found = checkpoint::find_no_number(type_name(type), bytes_of(host));
  return !found || (found->is_infinite() && is_constant) ? "" : found->text();
}

BuiltBuffers::BuiltBuffers(Stage& stage) {
  for (const int layer : stage.layers())
    for (const model::Buffer& buffer : stage.layer(layer).buffers())
      if (!no_number_in(buffer.value).empty())
        digests_[{layer, buffer.name}] = digest_of(buffer.value);
}

bool BuiltBuffers::is_constant(int layer, const model::Buffer& buffer) const {
  const auto found = digests_.find({layer, buffer.name});
  return found != digests_.end() && digest_of(buffer.value) == found->second;
}

std::pair<std::string, std::string> BuiltBuffers::first_lost(Stage& stage) const {
  for (const int layer : stage.layers()) {
    for (const model::Buffer& buffer : stage.layer(layer).buffers()) {
      if (!buffer.is_saved) continue;
      const std::string found = no_number_in(buffer.value, is_constant(layer, buffer));
      if (!found.empty()) return {concat(stage.layer_name(layer), '/', buffer.name), found};
    }
  }
  return {};
}

}  // namespace trireme::runtime
