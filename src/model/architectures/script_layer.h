// A layer from a TorchScript file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"

#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme::model {

/// Properties of a layer, known from its file alone.
struct ScriptContents {
  bool has_trained = false, has_frozen = false, has_batch_norm = false;
};

/// Throws InputError for a file that LibTorch cannot load, or whose module cannot be a layer.
ScriptContents contents_of_script(const std::filesystem::path& file);

struct ScriptOptions {
  bool is_last = false;
  std::map<std::string, std::string> ties = {};  ///< of parameters: Parameter::tie
};

/// Runs a TorchScript module. Its parameters and buffers become the layer's; other tensors
/// (attributes, buffers that no checkpoint can hold: complex, quantized, sparse) stay in the module
/// and must not change.
class ScriptLayer final : public Layer {
 public:
  ScriptLayer(std::filesystem::path file, ScriptOptions options);

  /// Throws InputError, naming the file, if the module does anything that a layer must not.
  Values forward(const Values& input, const Context& context) override;

  const std::filesystem::path& file() const { return file_; }

 private:
  /// A tensor of the module and the layer's tensor in its place.
  struct Adopted {
    std::string name;
    at::Tensor theirs, mine;
  };
  /// A tensor and its place in the module.
  struct Slot {
    torch::jit::Module module;
    std::string attribute, name;
    at::Tensor value;
  };
  void adopt(torch::jit::Module module, const std::string& prefix, std::vector<Adopted>& known);
  at::Tensor adopted_parameter(const std::string& name, const at::Tensor& value, bool is_of_norm);
  Values run(const std::vector<c10::IValue>& arguments, const Context& context);
  c10::IValue call(const std::vector<c10::IValue>& arguments);
  void require_gradient(const Values& input, const Values& output) const;
  class LentBuffers;
  at::Tensor share_of_step(const at::Tensor& loss, const Values& target) const;
  [[noreturn]] void fail(const std::string& message) const;

  std::filesystem::path file_;
  ScriptOptions options_;
  torch::jit::Module module_;
  std::vector<Slot> buffer_slots_, constants_;
  bool is_random_ = false, sets_buffers_ = false;
};

}  // namespace trireme::model
