// `model.weights`: the weights that a job begins with determine the model.
// SPDX-License-Identifier: Apache-2.0
#include "read.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/config/huggingface.h"
#include "trireme/config/weights_notes.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::config {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

class Weights : public testing::Test {
 protected:
  void SetUp() override {
    io::write_file(folder_ / "config.json",
                   R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 32, "n_head": 2,
                       "n_positions": 64, "vocab_size": 500})");
  }

  JobSpec job_with(const std::string& keys, const std::string& kind = "tokens") const {
    return read(concat("model: {weights: \"", folder_.path().string(), "\"", keys,
                       "}\ndata: {kind: ", kind, ", files: [x]}\n"));
  }

  TemporaryFolder folder_;
};

TEST_F(Weights, GiveTheModelItsKindAndSizes) {
  const JobSpec job = job_with("");
  const auto& spec = std::get<GptSpec>(job.model);
  EXPECT_EQ(job.weights, folder_.path().string());
  EXPECT_EQ(spec.blocks, 3);
  EXPECT_EQ(spec.width, 32);
  EXPECT_EQ(spec.context, 64);
}

TEST_F(Weights, LeaveContextDropoutAndGrainToTheJob) {
  const auto spec =
      std::get<GptSpec>(job_with(", kind: gpt, context: 16, dropout: 0.1, grain: fine").model);
  EXPECT_EQ(spec.blocks, 3);
  EXPECT_EQ(spec.context, 16);
  EXPECT_EQ(spec.positions, 64);
  EXPECT_EQ(spec.dropout, 0.1);
  EXPECT_EQ(spec.grain, "fine");
  EXPECT_THAT(to_huggingface(spec).value(), HasSubstr("\"n_positions\": 64"));
  EXPECT_THAT(input_error([&] { job_with(", context: 65"); }),
              HasSubstr("model.context is 65, must be at most model.positions = 64"));
  EXPECT_THAT(input_error([&] { job_with(", context: 16, positions: 16"); }),
              HasSubstr("positions is 16, but the weights have 64: leave it out"));
}

TEST_F(Weights, OfKeysThatNobodyKnowsAreNoted) {
  EXPECT_THAT(weights_notes(job_with("")), testing::IsEmpty());
  io::write_file(folder_ / "config.json",
                 R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 32, "n_head": 2,
                     "n_positions": 64, "vocab_size": 500, "is_causal": true, "use_cache": true,
                     "embedding_multiplier": 12.0, "use_mrope": false, "other": null,
                     "sees_both_ways": true})");
  EXPECT_THAT(weights_notes(job_with("")),
              testing::ElementsAre(
                  HasSubstr("config.json: embedding_multiplier, sees_both_ways are ignored")));
}

TEST_F(Weights, WithoutScaledPositionsRefuseAJobsOwn) {
  io::write_file(folder_ / "config.json",
                 R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2,
                     "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 500})");
  EXPECT_THAT(input_error([&] { job_with(", rope_factor: 4, rope_scaling: linear"); }),
              HasSubstr("rope_factor is 4, but the weights have none: leave it out"));
}

TEST_F(Weights, MayHaveAdaptersBesideThem) {
  const auto spec = std::get<GptSpec>(
      job_with(", lora_rank: 4, lora_alpha: 8, lora_targets: [qkv], trained: [\"*lora*\"]").model);
  EXPECT_EQ(spec.blocks, 3);
  EXPECT_EQ(spec.lora_rank, 4);
  EXPECT_EQ(spec.lora_alpha, 8);
  EXPECT_EQ(spec.lora_targets, std::vector<std::string>{"qkv"});
  EXPECT_EQ(spec.trained, std::vector<std::string>{"*lora*"});
}

TEST_F(Weights, AreReadBackFromAResolvedJob) {
  const JobSpec job = job_with(", context: 16, lora_rank: 2, lora_targets: [up, down]");
  const JobSpec back = read(to_yaml(job));
  EXPECT_EQ(to_yaml(back), to_yaml(job));
  EXPECT_EQ(back.weights, job.weights);
}

TEST_F(Weights, RefuseAModelOfOtherSizes) {
  const std::string message = input_error([&] { job_with(", width: 64"); });
  EXPECT_THAT(message, HasSubstr("dir/a.yaml:1: model.width is 64, but the weights have 32"));
}

TEST_F(Weights, RefuseAModelOfAnotherKind) {
  EXPECT_THAT(input_error([&] { job_with(", kind: llama"); }),
              HasSubstr("model.kind is llama, but the weights in"));
}

TEST_F(Weights, OfOtherTokensRefuseText) {
  EXPECT_THAT(input_error([&] { job_with("", "text"); }),
              HasSubstr("dir/a.yaml:2: data.kind is text, whose bytes are the tokens, but the 500 "
                        "tokens of the weights in"));
}

TEST(WeightsWithoutConfig, NeedTheKind) {
  const TemporaryFolder folder;
  io::write_file(folder / "w.safetensors", "");
  EXPECT_THAT(input_error([&] {
                read(concat("model: {weights: \"", folder.path().string(),
                            "/w.safetensors\"}\ndata: {files: [x.txt]}\n"));
              }),
              HasSubstr("model.kind is missing"));
  const JobSpec job =
      read("model: {kind: mlp, weights: w.safetensors, widths: [8]}\ndata: {kind: synthetic}\n");
  EXPECT_EQ(job.weights, "w.safetensors");
  EXPECT_EQ(std::get<MlpSpec>(job.model).widths, std::vector<int>{8});
}

TEST(WeightsWithoutConfig, ThatAreNotThereAreNamed) {
  const auto refusal = [](const std::string& weights) {
    return input_error([&] {
      read(kLeast, {.settings = {concat("model={weights: \"", weights, "\"}")}, .own_models = {}});
    });
  };
  EXPECT_THAT(refusal("no/such"), HasSubstr("--set model.weights is \"no/such\", which does not "
                                            "exist: name a folder of weights with their "
                                            "config.json"));
  const TemporaryFolder empty;
  EXPECT_THAT(refusal(empty.path().string()), HasSubstr("a folder without the config.json"));
}

TEST(WeightsWithoutConfig, AreNotForModelsOfTheProgramsAuthor) {
  EXPECT_THAT(input_error([] {
                read("model: {kind: mine, weights: w.safetensors}\ndata: {files: [x.txt]}\n",
                     {.settings = {}, .own_models = {"mine"}});
              }),
              HasSubstr("model.weights is for the built-in kinds"));
}

TEST(RopeScaling, HasTheKeysOfItsKind) {
  const JobSpec job = read(
      "model: {kind: llama, rope_scaling: linear, rope_factor: 4}\n"
      "data: {files: [x.txt]}\n");
  EXPECT_EQ(std::get<LlamaSpec>(job.model).rope_factor, 4);
  EXPECT_EQ(to_yaml(read(to_yaml(job))), to_yaml(job));
  EXPECT_THAT(
      input_error([] {
        read(
            "model: {kind: llama, rope_scaling: linear, rope_original_context: 8}\n"
            "data: {files: [x.txt]}\n");
      }),
      HasSubstr("rope_original_context is a key of model.rope_scaling llama3 or yarn, but"));
}

TEST_F(Weights, HaveTheSizesThatAJobMayHave) {
  io::write_file(folder_ / "config.json",
                 R"({"model_type": "gpt2", "n_layer": 100000000, "n_embd": 32, "n_head": 2})");
  EXPECT_THAT(input_error([&] { job_with(""); }), HasSubstr("blocks is 100000000, must be"));
}

}  // namespace
}  // namespace trireme::config
