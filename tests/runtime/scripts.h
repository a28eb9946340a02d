// Modules as torch.jit saves them, made without Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace trireme::runtime {

struct Script {
  std::string code;  ///< of the method forward
  std::vector<std::pair<std::string, at::Tensor>> parameters, buffers = {};
  bool is_frozen = false;  ///< no parameter needs a gradient
  /// Added to the only output, as tensor constants in the code, which is how a trace writes
  /// numbers.
  std::vector<at::Tensor> constants = {};
};

void save_script(const Script& script, const std::filesystem::path& file);

/// Four layers and a loss that draw random numbers, change a buffer, use a weight twice and pass on
/// a tuple; for vectors of 32 values and 10 classes.
config::TorchScriptSpec save_scripts(const std::filesystem::path& folder);

/// The same with parameters that need no gradient in layers 0, 1 and 3, so that nothing is trained
/// below layer 2. Or with buffers in their place.
config::TorchScriptSpec save_frozen_scripts(const std::filesystem::path& folder);
config::TorchScriptSpec save_constant_scripts(const std::filesystem::path& folder);

}  // namespace trireme::runtime
