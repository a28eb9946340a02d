// SPDX-License-Identifier: Apache-2.0
#include "generate_command.h"

#include "launch.h"
#include "saved_run.h"

#include "trireme/config/huggingface.h"
#include "trireme/config/job.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/terminal.h"
#include "trireme/runtime/weights.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <utility>
#include <variant>

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBytes = 256;

/// A model and how its tokens are written.
struct Speaker {
  runtime::LanguageModel model;
  std::int64_t vocabulary = 0;
  bool bytes_are_tokens = false;
};

Speaker speaker_of(const GenerateArguments& arguments, const model::ModelRegistry& own) {
  if (is_saved_run(arguments.model)) {
    const SavedRun run = find_saved_run(arguments.model, arguments.step, own);
    if (std::holds_alternative<config::TorchScriptSpec>(run.job.model))
      throw InputError(concat(arguments.model, ": ", model::kNoLogits));
    const model::ChainModel chain = model::make_model(run.job.model, own);
    const std::string& data = run.job.data.kind;
    return {.model = runtime::LanguageModel::of_checkpoint(chain, run.checkpoint),
            .vocabulary = chain.classes,
            .bytes_are_tokens = data == "text" || (data == "documents" && chain.classes == kBytes)};
  }
  std::error_code none;
  if (!fs::exists(fs::path(arguments.model) / config::kHuggingFaceFile, none)) {
    // Of a run that kept no checkpoint there is its job alone: what is missing is said there.
    if (fs::exists(fs::path(arguments.model) / "job.yaml", none))
      find_saved_run(arguments.model, arguments.step, own);
    throw InputError(concat(arguments.model,
                            ": is neither a run's folder nor one with weights and their ",
                            config::kHuggingFaceFile));
  }
  const config::JobSpec job =
      config::read_job(io::parse(concat("model: {weights: ", io::json_text(arguments.model),
                                        "}\ndata: {kind: synthetic}\n"),
                                 arguments.model),
                       {});
  const model::ChainModel chain = model::make_model(job.model);
  return {.model = runtime::LanguageModel::of_weights(chain, job.model, job.weights),
          .vocabulary = chain.classes,
          .bytes_are_tokens = chain.classes == kBytes};
}

/// Digits with an optional minus, behind spaces: "010" means 8 to some programs and 10 to others.
std::int64_t token_in(std::string_view piece) {
  piece.remove_prefix(std::min(piece.find_first_not_of(' '), piece.size()));
  const std::string_view digits = piece.starts_with('-') ? piece.substr(1) : piece;
  const bool is_octal = digits.size() > 1 && digits.starts_with('0');
  std::int64_t token = 0;
  const char* const end = piece.data() + piece.size();
  const auto [rest, failure] = std::from_chars(piece.data(), end, token);
  if (failure != std::errc{} || rest != end || is_octal)
    throw InputError(concat("--prompt-tokens: ", piece.empty() ? "an empty text" : piece,
                            " is no token, must be decimal whole numbers separated by commas, "
                            "e.g. 464,2068"));
  return token;
}

std::vector<std::int64_t> tokens_in(const std::string& text, std::int64_t vocabulary) {
  std::vector<std::int64_t> tokens;
  for (const std::string& piece : split(text, ',')) {
    tokens.push_back(token_in(piece));
    if (tokens.back() < 0 || tokens.back() >= vocabulary)
      throw InputError(concat("--prompt-tokens: ", tokens.back(),
                              " is none of the model's tokens, 0 to ", vocabulary - 1));
  }
  return tokens;
}

std::vector<std::int64_t> prompt_of(const GenerateArguments& arguments, const Speaker& speaker) {
  if (arguments.prompt_tokens) return tokens_in(*arguments.prompt_tokens, speaker.vocabulary);
  if (!speaker.bytes_are_tokens)
    throw InputError(
        "--prompt: this model's tokens are not bytes: give their numbers with --prompt-tokens");
  if (arguments.prompt.empty()) throw InputError("--prompt: is empty: give a text to go on with");
  std::vector<std::int64_t> tokens;
  for (const char byte : arguments.prompt) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

void print(const GenerateArguments& arguments, const Speaker& speaker) {
  std::vector<std::int64_t> tokens = prompt_of(arguments, speaker);
  const bool as_text = speaker.bytes_are_tokens && !arguments.prompt_tokens;
  // To a file or a program, bytes go as they are; what a model makes up must not steer a terminal.
  const bool is_watched = ::isatty(STDOUT_FILENO) != 0;
  const auto say = [&](std::int64_t token, bool is_first) {
    const char byte = static_cast<char>(token);
    if (as_text && !is_watched)
      io::write_as_is(std::cout, {&byte, 1});
    else if (as_text)
      std::cout << byte;
    else
      std::cout << (is_first ? "" : ",") << token;
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) say(tokens[i], i == 0);
  at::Generator generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(arguments.seed));
  const runtime::Sampling sampling{.temperature = arguments.temperature, .top_k = arguments.top_k};
  for (int i = 0; i < arguments.tokens; ++i) {
    at::Tensor logits_V = speaker.model.next(tokens);
    if (!at::isfinite(logits_V).all().item<bool>())
      throw Error(concat(arguments.model, ": the model gives no finite values for the token after ",
                         tokens.size(),
                         ", its training diverged: take an earlier checkpoint (--step), or train "
                         "again, with a lower train.optimizer.learning_rate"));
    if (speaker.bytes_are_tokens) logits_V = logits_V.narrow(0, 0, kBytes);
    tokens.push_back(runtime::draw(logits_V, sampling, generator));
    if (tokens.back() == arguments.until) break;
    say(tokens.back(), false);
    std::cout << std::flush;
  }
  std::cout << "\n";
}

}  // namespace

int generate(const GenerateArguments& arguments, const model::ModelRegistry& own) {
  try {
    // No range of the command line refuses it: it is neither below one nor above.
    if (std::isnan(arguments.temperature))
      throw InputError("--temperature: is nan, must be a number from 0 to 1000");
    const Speaker speaker = speaker_of(arguments, own);
    if (arguments.until && *arguments.until >= speaker.vocabulary)
      throw InputError(concat("--until: ", *arguments.until,
                              " is none of the model's tokens, 0 to ", speaker.vocabulary - 1));
    print(arguments, speaker);
    return 0;
  } catch (...) {
    return exit_code_of_current_exception(true, "");
  }
}

}  // namespace trireme::app
