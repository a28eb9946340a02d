// Loading and inspecting TorchScript modules and their tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace trireme::model {

/// Loads to the CPU, whatever device it was saved on. Throws InputError for a file that is not a
/// module.
torch::jit::Module load_script(const std::filesystem::path& file);

struct ForwardTraits {
  bool is_random = false;     ///< its output depends on a generator
  bool sets_buffers = false;  ///< it assigns other tensors to buffers
  std::string sets_other;     ///< name of an attribute, not a buffer, that it assigns
};
/// The module must have a forward.
ForwardTraits traits_of_forward(const torch::jit::Module& module);

/// Whether a module is a batch norm, whose scale and shift have the type of its statistics.
bool is_batch_norm(const torch::jit::Module& module);
/// Tensors of this module that are neither parameters nor buffers.
std::vector<std::pair<std::string, at::Tensor>> tensor_attributes(const torch::jit::Module& module);
/// Whether checkpoints support its type.
bool may_be_saved(const at::Tensor& value);
/// "ComplexFloat", "sparse Float".
std::string kind_text(const at::Tensor& value);
/// Whether both are the same value under two names.
bool is_same(const at::Tensor& a, const at::Tensor& b);
/// Whether writing to one may change the other.
bool share_bytes(const at::Tensor& a, const at::Tensor& b);

}  // namespace trireme::model
