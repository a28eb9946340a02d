// `trireme generate RUN`: how a model goes on with a text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::app {

struct GenerateArguments {
  std::string
      model;  ///< folder of a run or of a checkpoint; or weights as `model.weights` takes them
  std::string prompt;
  /// Instead of a prompt, where bytes are not the tokens: "464,2068", as it was typed.
  std::optional<std::string> prompt_tokens;
  std::optional<std::int64_t> step;  ///< of the checkpoint; else the newest
  int tokens = 200;
  std::optional<std::int64_t> until;  ///< ends before this token
  double temperature = 1;
  int top_k = 0;
  std::int64_t seed = 1;
  std::string device = "cpu";  ///< cpu | cuda
};

/// Returns the exit code; errors are printed. Prints the prompt and what follows it, token by
/// token.
int generate(const GenerateArguments& arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
