// Texts that a language model continues, token by token.
// SPDX-License-Identifier: Apache-2.0
#include "made_up.h"
#include "small_runs.h"
#include "support/temporary_folder.h"

#include "trireme/runtime/weights.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

namespace trireme::runtime {
namespace {

using support::TemporaryFolder;
using testing::ElementsAreArray;

struct Greedy {
  std::string name;
  config::ModelSpec model;
  std::vector<std::int64_t> tokens;  ///< the most likely ones after vector_tokens()
};

void PrintTo(const Greedy& each, std::ostream* out) {
  *out << each.name;
}

/// Printed by huggingface_vectors.py: transformers' generate(do_sample=False).
std::vector<Greedy> greedy() {
  std::vector<Greedy> all;
  for (const std::string grain : {"block", "half_block", "fine"}) {
    config::GptSpec gpt = vector_gpt();
    gpt.grain = grain;
    all.push_back({"gpt2_" + grain, gpt, {12, 2, 6, 12, 9, 12, 2, 2, 4, 12, 7, 11, 7, 9, 12, 2}});
    config::LlamaSpec llama = vector_llama();
    llama.kv_heads = 1;
    llama.rope_base = 100;
    llama.grain = grain;
    all.push_back({"llama_" + grain, llama, {10, 6, 7, 3, 4, 5, 1, 6, 7, 3, 13, 5, 1, 6, 7, 3}});
    config::LlamaSpec qwen2 = llama;
    llama.window = 5;
    all.push_back({"mistral_" + grain, llama, {10, 11, 12, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}});
    qwen2.qkv_bias = true;
    qwen2.norm_epsilon = 1e-6;
    qwen2.rope_base = 200;
    all.push_back(
        {"qwen2_" + grain, qwen2, {15, 12, 8, 8, 13, 5, 15, 7, 3, 3, 3, 8, 8, 13, 5, 15}});
    qwen2.window = 4;
    qwen2.window_blocks = {1};
    all.push_back(
        {"qwen2_windows_" + grain, qwen2, {1, 7, 3, 8, 13, 5, 15, 7, 3, 8, 8, 8, 13, 5, 15, 7}});
  }
  config::LlamaSpec llama3 = vector_llama();
  llama3.rope_base = 50;
  llama3.rope_scaling = "llama3";
  llama3.rope_factor = 4;
  llama3.rope_original_context = 16;
  all.push_back({"llama3", llama3, {10, 11, 12, 13, 5, 15, 7, 3, 13, 5, 15, 7, 3, 13, 5, 15}});
  return all;
}

class OfTransformers : public testing::TestWithParam<Greedy> {};

TEST_P(OfTransformers, TextsGoOnAsThere) {
  const TemporaryFolder folder;
  const Trained trained = train_and_export(small_job(GetParam().model), folder);
  make_up(trained.weights, folder / "made-up.safetensors");
  const LanguageModel model = LanguageModel::of_weights(
      model::make_model(GetParam().model), GetParam().model, folder / "made-up.safetensors");

  std::vector<std::int64_t> tokens = vector_tokens();
  GrowingText text(model, 28);
  at::Generator unused = at::detail::createCPUGenerator(1);
  for (int i = 0; i < 16; ++i)
    tokens.push_back(draw(text.next(tokens), {.temperature = 0}, unused));

  EXPECT_THAT(std::vector(tokens.begin() + 12, tokens.end()), ElementsAreArray(GetParam().tokens));
}

INSTANTIATE_TEST_SUITE_P(Models, OfTransformers, testing::ValuesIn(greedy()),
                         [](const auto& each) { return each.param.name; });

TEST(GrowingText, HasTheSameTokensAsWithoutWhatIsKept) {
  config::LlamaSpec llama = vector_llama();
  llama.kv_heads = 1;
  config::GptSpec untied = small_gpt();
  untied.tied_head = false;
  for (const config::ModelSpec& spec :
       std::vector<config::ModelSpec>{small_gpt(), untied, with_adapters(), llama}) {
    const TemporaryFolder folder;
    const Trained trained = train_and_export(small_job(spec), folder);
    const LanguageModel model =
        LanguageModel::of_checkpoint(model::make_model(spec), trained.checkpoint);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      at::Generator one = at::detail::createCPUGenerator(seed), other = one.clone();
      std::vector<std::int64_t> tokens{1, 2, 3};
      GrowingText text(model, model.context());
      const Sampling sampling{.temperature = 1.5, .top_k = seed % 2 == 0 ? 10 : 0};
      while (static_cast<std::int64_t>(tokens.size()) < model.context()) {
        const at::Tensor whole = model.next(tokens), kept = text.next(tokens);
        ASSERT_LT((whole - kept).abs().max().item<double>(), 1e-5) << tokens.size();
        const std::int64_t token = draw(whole, sampling, one);
        ASSERT_EQ(draw(kept, sampling, other), token) << tokens.size();
        tokens.push_back(token);
      }
    }
  }
}

TEST(GrowingText, SeesTheNewestPartOfWhatIsLongerThanTheContext) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(small_gpt());
  const Trained trained = train_and_export(job, folder);
  const LanguageModel model =
      LanguageModel::of_checkpoint(model::make_model(job.model), trained.checkpoint);
  std::vector<std::int64_t> tokens(40);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto distance = [&](const at::Tensor& logits, std::size_t end, std::size_t seen) {
    return (model.next(std::span(tokens).first(end).last(seen)) - logits)
        .abs()
        .max()
        .item<double>();
  };

  GrowingText text(model, 40);
  EXPECT_EQ(text.least_seen(), 12);
  for (std::size_t end = 10; end <= 40; ++end) {
    // The context is 16: at 17, 22, 27, ... tokens all but the newest 12 are dropped.
    const std::size_t seen = end <= 16 ? end : 12 + (end - 17) % 5;
    const at::Tensor logits = text.next(std::span(tokens).first(end));
    EXPECT_LT(distance(logits, end, seen), 1e-5) << end;
    EXPECT_GT(distance(logits, end, seen - 1), 1e-4) << end;
  }
  GrowingText long_from_the_first(model, 40);
  EXPECT_LT(distance(long_from_the_first.next(std::span(tokens).first(30)), 30, 16), 1e-5);
  EXPECT_LT(distance(long_from_the_first.next(std::span(tokens).first(31)), 31, 12), 1e-5);
}

}  // namespace
}  // namespace trireme::runtime
