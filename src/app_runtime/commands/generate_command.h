// `trireme generate RUN`: continues a text with a language model.
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
  /// Token ids instead of a prompt, where tokens are not bytes: "464,2068", as typed.
  std::optional<std::string> prompt_tokens;
  std::optional<std::int64_t> step;  ///< of the checkpoint; else the newest
  int tokens = 200;
  std::optional<std::int64_t> until;  ///< stop token, which is not printed
  double temperature = 1;
  int top_k = 0;
  std::int64_t seed = 1;
  std::string device = "cpu";  ///< cpu | cuda
};

/// Returns the exit code; errors are printed. Prints the prompt and what follows it, token by
/// token.
int generate(const GenerateArguments& arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
