// SPDX-License-Identifier: Apache-2.0
#include "check_job.h"

#include "trireme/config/huggingface.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <set>

namespace trireme::config {
namespace {

void check_spec(const JobSpec& job, const GptSpec& spec);
void check_spec(const JobSpec& job, const LlamaSpec& spec);
void check_spec(const JobSpec& job, const VitSpec& spec);
void check_spec(const JobSpec& job, const MlpSpec& spec);
void check_spec(const JobSpec& job, const TorchScriptSpec& spec);
/// Nothing to check beyond the ranges.
template <class Spec>
void check_spec(const JobSpec&, const Spec&) {}

void require_multiple(const JobSpec& job, std::string_view key, int value,
                      std::string_view unit_key, int unit);
/// Throws InputError unless rotary positions turn pairs of a head's values.
void require_pairs(const JobSpec& job, const LlamaSpec& spec);
/// Throws InputError for a number that no block has.
void require_blocks(const JobSpec& job, std::string_view key, const std::vector<int>& numbers,
                    int blocks);
void require_vocabulary(const JobSpec& job, int vocabulary);
/// Throws InputError unless every target is one of the chain's linear weights.
void require_targets(const JobSpec& job, const std::vector<std::string>& targets);

}  // namespace

void check_model(const JobSpec& job) {
  std::visit([&](const auto& spec) { check_spec(job, spec); }, job.model);
}

namespace {

void check_spec(const JobSpec& job, const GptSpec& spec) {
  require_multiple(job, "model.width", spec.width, "model.heads", spec.heads);
  if (spec.context > spec.table_rows())
    job.fail("model.context", concat("is ", spec.context, ", must be at most model.positions = ",
                                     spec.table_rows(), ": a token has a learned position"));
  require_vocabulary(job, spec.vocabulary);
  require_targets(job, spec.lora_targets);
}

void check_spec(const JobSpec& job, const LlamaSpec& spec) {
  if (!spec.head_width) require_multiple(job, "model.width", spec.width, "model.heads", spec.heads);
  require_multiple(job, "model.heads", spec.heads, "model.kv_heads", spec.key_value_heads());
  require_pairs(job, spec);
  if (spec.rope_scaling == "llama3" && spec.rope_high_turns <= spec.rope_low_turns)
    job.fail("model.rope_high_turns",
             concat("is ", spec.rope_high_turns,
                    ", must be more than model.rope_low_turns = ", spec.rope_low_turns));
  require_blocks(job, "model.window_blocks", spec.window_blocks, spec.blocks);
  require_blocks(job, "model.unrotated_blocks", spec.unrotated_blocks, spec.blocks);
  if (!spec.window && !spec.window_blocks.empty())
    job.fail("model.window_blocks", "is set, but there is no window: needs model.window");
  if (!spec.window && spec.window_rope_base)
    job.fail("model.window_rope_base", "is set, but there is no window: needs model.window");
  require_vocabulary(job, spec.vocabulary);
  require_targets(job, spec.lora_targets);
}

void check_spec(const JobSpec& job, const VitSpec& spec) {
  require_multiple(job, "model.image_size", spec.image_size, "model.patch", spec.patch);
  require_multiple(job, "model.width", spec.width, "model.heads", spec.heads);
}

void check_spec(const JobSpec& job, const MlpSpec& spec) {
  if (spec.widths.empty())
    job.fail("model.widths", "is an empty list, must have at least one width");
}

void check_spec(const JobSpec& job, const TorchScriptSpec& spec) {
  if (spec.files.empty())
    job.fail("model.files",
             "is missing, must be a list of modules saved by torch.jit, e.g. [\"layers/*.pt\"]");
  if (spec.takes == "tokens") require_vocabulary(job, spec.classes);
  std::set<std::string> named;
  for (const std::vector<std::string>& places : spec.tied) {
    if (places.size() < 2)
      job.fail("model.tied", concat("has a list of ", places.size(),
                                    " places, must have lists of at least two that are one "
                                    "weight, e.g. [[0/weight, 5/weight]]"));
    for (const std::string& place : places)
      if (!named.insert(place).second)
        job.fail("model.tied", concat("names '", place, "' twice: a weight is in one list"));
  }
}

void require_multiple(const JobSpec& job, std::string_view key, int value,
                      std::string_view unit_key, int unit) {
  if (value % unit != 0)
    job.fail(key, concat("is ", value, ", must be a multiple of ", unit_key, " = ", unit));
}

void require_pairs(const JobSpec& job, const LlamaSpec& spec) {
  if (spec.rotated_values() > 0 && spec.rotated_values() % 2 == 0) return;
  const char* const why = ": rotary positions turn pairs of values";
  if (spec.rope_fraction != 1)
    job.fail("model.rope_fraction",
             concat("is ", to_text(spec.rope_fraction), ", which is ", spec.rotated_values(),
                    " of a head's ", spec.head_size(), " values, must be an even number", why));
  if (spec.head_width)
    job.fail("model.head_width", concat("is ", *spec.head_width, ", must be even", why));
  job.fail("model.width", concat("is ", spec.width,
                                 ", must be an even multiple of model.heads = ", spec.heads, why));
}

void require_blocks(const JobSpec& job, std::string_view key, const std::vector<int>& numbers,
                    int blocks) {
  for (const int number : numbers)
    if (number >= blocks)
      job.fail(key, concat("has ", number, ", must have numbers below model.blocks = ", blocks,
                           ": the first block is 0"));
}

void require_targets(const JobSpec& job, const std::vector<std::string>& targets) {
  std::vector<std::string> known;
  for (const auto& [ours, theirs] : linear_modules(job.model)) known.push_back(ours);
  for (const std::string& target : targets)
    if (std::find(known.begin(), known.end(), target) == known.end())
      job.fail("model.lora_targets",
               concat("has '", target, "', must be some of ", join(known, ", ")));
}

void require_vocabulary(const JobSpec& job, int vocabulary) {
  if (job.data.kind == "text" && vocabulary < 256)
    job.fail("model.vocabulary", concat("is ", vocabulary,
                                        ", must be at least 256 for data.kind text: "
                                        "every byte is a token"));
  if (job.data.kind == "text" && !job.weights.empty() && vocabulary != 256)
    job.fail("data.kind", concat("is text, whose bytes are the tokens, but the ", vocabulary,
                                 " tokens of the weights in ", job.weights,
                                 " mean something else: encode the text with their tokenizer "
                                 "(examples/tokens.py), and say tokens"));
}

}  // namespace
}  // namespace trireme::config
