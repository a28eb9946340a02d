// `trireme export RUN`: writes the weights that a run has trained, for other programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trireme::app {

struct ExportArguments {
  std::string run;                   ///< folder of a run or of a checkpoint
  std::string output;                ///< a folder; or one file if it ends with .safetensors
  std::optional<std::int64_t> step;  ///< of the checkpoint; else the newest
  std::string type = "float32";      ///< float32 | bfloat16 | float16
  bool adapters = false;             ///< adapters alone, instead of a model that contains them
};

/// Returns the exit code; errors are printed. The output appears as a whole or not at all; Ctrl-C
/// and SIGTERM leave nothing of it.
int export_run(const ExportArguments& arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
