// A layer from a file of torch.jit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"

#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme::model {

/// What can be said of a layer from its file alone.
struct ScriptContents {
  bool has_trained = false, has_frozen = false, has_batch_norm = false;
};

/// Throws InputError for a file that LibTorch cannot load, or whose module cannot be a layer.
ScriptContents contents_of_script(const std::filesystem::path& file);

struct ScriptOptions {
  bool is_last = false;
  std::map<std::string, std::string> ties = {};  ///< of parameters: Parameter::tie
};

/// Runs a module. Its parameters and buffers are the layer's own; tensors of other kinds
/// (attributes, buffers that no checkpoint holds: complex, quantized, sparse) stay the module's and
/// must not change.
class ScriptLayer final : public Layer {
 public:
  ScriptLayer(std::filesystem::path file, ScriptOptions options);

  /// Throws InputError, which names the file, for whatever the module does that a layer must not.
  Values forward(const Values& input, const Context& context) override;

  const std::filesystem::path& file() const { return file_; }

 private:
  /// A value of the module and what the layer has in its place.
  struct Adopted {
    std::string name;
    at::Tensor theirs, mine;
  };
  /// A tensor and where the module has it.
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
