// SPDX-License-Identifier: Apache-2.0
#include "commands/generate_command.h"

#include "folder/saved_run.h"

#include "trireme/config/huggingface.h"
#include "trireme/config/job.h"
#include "trireme/config/sight.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/device/cuda_library.h"
#include "trireme/io/node.h"
#include "trireme/io/terminal.h"
#include "trireme/ranks/launch.h"
#include "trireme/runtime/weights.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBytes = 256;

/// A model and what its tokens are.
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
    // A run without checkpoints has only its job here: find_saved_run() says what is missing.
    if (fs::exists(fs::path(arguments.model) / "job.yaml", none))
      find_saved_run(arguments.model, arguments.step, own);
    throw InputError(concat(arguments.model,
                            ": is neither a run's folder nor one with weights and their ",
                            config::kHuggingFaceFile));
  }
  config::JobSpec job =
      config::read_job(io::parse(concat("model: {weights: ", io::json_text(arguments.model),
                                        "}\ndata: {kind: synthetic}\n"),
                                 arguments.model),
                       {});
  // Rotary positions reach as far as the model was trained for; training has its own context.
  if (auto* const llama = std::get_if<config::LlamaSpec>(&job.model))
    llama->context = static_cast<int>(
        config::longest_text(io::load(fs::path(arguments.model) / config::kHuggingFaceFile)));
  const model::ChainModel chain = model::make_model(job.model);
  return {.model = runtime::LanguageModel::of_weights(chain, job.model, job.weights),
          .vocabulary = chain.classes,
          .bytes_are_tokens = chain.classes == kBytes};
}

/// Digits with an optional minus, after spaces: "010" means 8 to some programs and 10 to others.
std::int64_t token_in(std::string_view piece) {
  piece.remove_prefix(std::min(piece.find_first_not_of(' '), piece.size()));
  const std::string_view digits = piece.starts_with('-') ? piece.substr(1) : piece;
  const bool is_octal = digits.size() > 1 && digits.starts_with('0');
  std::int64_t token = 0;
  const char* const end = piece.data() + piece.size();
  const auto [rest, failure] = std::from_chars(piece.data(), end, token);
  if (failure != std::errc{} || rest != end || is_octal)
    throw InputError(concat("--prompt-tokens: ", piece.empty() ? "an empty text" : piece,
                            " is not a token, must be decimal whole numbers separated by commas, "
                            "e.g. 464,2068"));
  return token;
}

std::vector<std::int64_t> tokens_in(const std::string& text, std::int64_t vocabulary) {
  std::vector<std::int64_t> tokens;
  for (const std::string& piece : split(text, ',')) {
    tokens.push_back(token_in(piece));
    if (tokens.back() < 0 || tokens.back() >= vocabulary)
      throw InputError(concat("--prompt-tokens: ", tokens.back(),
                              " is not one of the model's tokens, 0 to ", vocabulary - 1));
  }
  return tokens;
}

std::vector<std::int64_t> prompt_of(const GenerateArguments& arguments, const Speaker& speaker) {
  if (arguments.prompt_tokens) return tokens_in(*arguments.prompt_tokens, speaker.vocabulary);
  if (!speaker.bytes_are_tokens)
    throw InputError(
        "--prompt: this model's tokens are not bytes: give their numbers with --prompt-tokens; "
        "examples/tokens.py numbers FOLDER TEXT prints them, FOLDER with the model's tokenizer");
  if (arguments.prompt.empty()) throw InputError("--prompt: is empty: give a text to continue");
  std::vector<std::int64_t> tokens;
  for (const char byte : arguments.prompt) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

/// Writes tokens as they come: a text's bytes, or numbers. Bytes go unchanged to a file or a
/// program, but not to a terminal, which a model's output must not control.
class Output {
 public:
  explicit Output(bool is_text) : is_text_(is_text), is_watched_(::isatty(STDOUT_FILENO) != 0) {}

  void say(std::int64_t token) {
    const char byte = static_cast<char>(token);
    if (is_text_ && !is_watched_)
      io::write_as_is(std::cout, {&byte, 1});
    else if (is_text_)
      std::cout << byte;
    else
      std::cout << (std::exchange(is_first_, false) ? "" : ",") << token;
    // A reader gets whole characters of UTF-8.
    if (!is_text_ || ends_character(static_cast<unsigned char>(token))) std::cout << std::flush;
  }

 private:
  /// Judged by the leading bits of a byte; what is not UTF-8 ends at once.
  bool ends_character(unsigned char byte) {
    const int ones = std::countl_one(byte);
    if (ones == 1)
      missing_ = std::max(0, missing_ - 1);
    else
      missing_ = ones >= 2 && ones <= 4 ? ones - 1 : 0;
    return missing_ == 0;
  }

  bool is_text_, is_watched_, is_first_ = true;
  int missing_ = 0;  ///< bytes that the current character still lacks
};

/// Prints to standard error how much of a text longer than the context the model sees.
void note_what_is_seen(const Speaker& speaker, const runtime::GrowingText& text,
                       std::int64_t prompt, std::int64_t tokens) {
  const std::int64_t context = speaker.model.context();
  if (prompt > context)
    std::cerr << "note: the model sees at most " << context << " tokens: of the prompt's " << prompt
              << " the first " << prompt - context << " are dropped\n";
  // The last token is not an input.
  if (tokens > 1 && prompt + tokens - 1 > context)
    std::cerr << "note: of a text of more than " << context << " tokens the model sees the newest "
              << (text.least_seen() < context ? concat(text.least_seen(), " to ") : "") << context
              << "\n";
}

void print(const GenerateArguments& arguments, const Speaker& speaker) {
  std::vector<std::int64_t> tokens = prompt_of(arguments, speaker);
  const auto prompt = static_cast<std::int64_t>(tokens.size());
  runtime::GrowingText text(speaker.model, prompt + arguments.tokens);
  note_what_is_seen(speaker, text, prompt, arguments.tokens);
  Output output(speaker.bytes_are_tokens && !arguments.prompt_tokens);
  for (const std::int64_t token : tokens) output.say(token);
  at::Generator generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(arguments.seed));
  const runtime::Sampling sampling{.temperature = arguments.temperature, .top_k = arguments.top_k};
  // Stops when standard output is closed.
  for (int i = 0; i < arguments.tokens && std::cout; ++i) {
    at::Tensor logits_V = text.next(tokens);
    if (!at::isfinite(logits_V).all().item<bool>())
      throw Error(concat(arguments.model, ": the model gives no finite values for the token after ",
                         tokens.size(),
                         ", its training diverged: take an earlier checkpoint (--step), or train "
                         "again, with a lower train.optimizer.learning_rate"));
    if (speaker.bytes_are_tokens) logits_V = logits_V.narrow(0, 0, kBytes);
    tokens.push_back(runtime::draw(logits_V, sampling, generator));
    if (tokens.back() == arguments.until) break;
    output.say(tokens.back());
  }
  std::cout << "\n";
}

}  // namespace

int generate(const GenerateArguments& arguments, const model::ModelRegistry& own) {
  try {
    // The command line's range check accepts nan, which is neither below nor above it.
    if (std::isnan(arguments.temperature))
      throw InputError("--temperature: is nan, must be a number from 0 to 1000");
    Speaker speaker = speaker_of(arguments, own);
    if (arguments.until && *arguments.until >= speaker.vocabulary)
      throw InputError(concat("--until: ", *arguments.until,
                              " is not one of the model's tokens, 0 to ", speaker.vocabulary - 1));
    if (arguments.device == "cuda") speaker.model.move_to(device::open_cuda().device());
    print(arguments, speaker);
    return 0;
  } catch (...) {
    return ranks::exit_code_of_current_exception(true, "");
  }
}

}  // namespace trireme::app
