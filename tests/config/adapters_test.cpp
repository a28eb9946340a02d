// Adapters as Hugging Face's peft describes them.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/adapters.h"

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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// As peft 0.21 writes it, with what differs from its defaults changed to `keys`.
std::string description(const std::string& keys) {
  return concat(R"({"alora_invocation_tokens": null, "alpha_pattern": {},
 "base_model_name_or_path": "gpt2", "corda_config": null, "fan_in_fan_out": true,
 "inference_mode": true, "loftq_config": {}, "lora_bias": false, "lora_dropout": 0.05,
 "megatron_core": "megatron.core", "peft_version": "0.21.2",
 "qalora_group_size": 16, "use_dora": null, "task_type": "CAUSAL_LM", "use_qalora": false,
 )",
                keys, "}");
}
io::Node described(const std::string& keys) {
  return io::parse(description(keys), "a/adapter_config.json");
}
const std::string kUsual =
    R"("peft_type": "LORA", "bias": "none", "init_lora_weights": true, "r": 8, "lora_alpha": 16)";

TEST(Adapters, StandBesideTheModulesOfTransformers) {
  EXPECT_THAT(linear_modules(GptSpec{}),
              ElementsAre(Pair("qkv", "attn.c_attn"), Pair("projection", "attn.c_proj"),
                          Pair("up", "mlp.c_fc"), Pair("down", "mlp.c_proj")));
  EXPECT_THAT(linear_modules(LlamaSpec{}),
              ElementsAre(Pair("q", "self_attn.q_proj"), Pair("k", "self_attn.k_proj"),
                          Pair("v", "self_attn.v_proj"), Pair("projection", "self_attn.o_proj"),
                          Pair("gate", "mlp.gate_proj"), Pair("up", "mlp.up_proj"),
                          Pair("down", "mlp.down_proj")));
  EXPECT_THAT(linear_modules(LlamaSpec{.fused_linears = true, .norms = "both", .qk_norm = "head"}),
              ElementsAre(Pair("qkv", "self_attn.qkv_proj"), Pair("projection", "self_attn.o_proj"),
                          Pair("gate_up", "mlp.gate_up_proj"), Pair("down", "mlp.down_proj")));
  EXPECT_TRUE(linear_modules(VitSpec{}).empty());
}

TEST(Adapters, AreReadAsPeftWritesThem) {
  const Adapters adapters = read_adapters(
      described(kUsual + R"(, "target_modules": ["c_proj", "attn.c_attn"])"), GptSpec{});
  EXPECT_EQ(adapters.rank, 8);
  EXPECT_EQ(adapters.alpha, 16);
  EXPECT_THAT(adapters.targets, ElementsAre("qkv", "projection", "down"));
  EXPECT_THAT(
      read_adapters(described(kUsual + R"(, "target_modules": ["q_proj", "v_proj"])"), LlamaSpec{})
          .targets,
      ElementsAre("q", "v"));
}

TEST(Adapters, OfWhichThereAreOtherKindsAreRefused) {
  const auto refusal = [](const std::string& keys) {
    return input_error([&] { read_adapters(described(keys), LlamaSpec{}); });
  };
  const std::string beside = R"(, "target_modules": ["q_proj"])";
  EXPECT_THAT(refusal(R"("peft_type": "IA3")"),
              HasSubstr("a/adapter_config.json:6: peft_type is IA3"));
  for (const char* const key :
       {R"("use_bdlora": {"a": 1})", R"("modules_to_save": ["lm_head"])",
        R"("rank_pattern": {"q_proj": 4})", R"("layer_replication": [[0, 1]])",
        R"("target_parameters": ["a"])", R"("trainable_token_indices": [0])",
        R"("megatron_config": {"a": 1})", R"("of_tomorrow": 1)"})
    EXPECT_THAT(refusal(concat(kUsual, beside, ", ", key)),
                HasSubstr("their values would mean something else"))
        << key;
  EXPECT_THAT(refusal(R"("peft_type": "LORA", "bias": "all")"), HasSubstr("bias is all"));
  EXPECT_THAT(refusal(R"("peft_type": "LORA", "init_lora_weights": "pissa")"),
              HasSubstr("init_lora_weights is pissa"));
  EXPECT_THAT(refusal(R"("peft_type": "LORA", "target_modules": ["q_proj"])"),
              HasSubstr("r is missing"));
  EXPECT_THAT(refusal(kUsual), HasSubstr("target_modules is missing"));
  EXPECT_THAT(refusal(kUsual + R"(, "target_modules": ["q_proj", "lm_head"])"),
              HasSubstr("target_modules[1] is lm_head, but only self_attn.q_proj"));
  EXPECT_THAT(refusal(kUsual + R"(, "target_modules": "(?<x>q_proj")"),
              HasSubstr("a pattern that is not understood"));
  // A pattern that needs backtracking.
  EXPECT_THAT(refusal(kUsual + R"(, "target_modules": ".*(q|v)_proj\\1")"),
              HasSubstr("a pattern that is not understood"));
}

// What peft 0.21 chooses in check_target_module_exists.
TEST(Adapters, StandBesideTheModulesThatPeftChooses) {
  LlamaSpec llama;
  llama.blocks = 2;
  const auto targets = [&](const std::string& keys, const ModelSpec& model) {
    return read_adapters(described(kUsual + ", " + keys), model).targets;
  };
  EXPECT_THAT(targets(R"("target_modules": "all-linear")", llama),
              ElementsAre("q", "k", "v", "projection", "gate", "up", "down"));
  EXPECT_THAT(targets(R"("target_modules": ["model.layers.0.self_attn.q_proj",
      "model.layers.1.self_attn.q_proj", "layers.0.mlp.up_proj", "layers.1.mlp.up_proj"])",
                      llama),
              ElementsAre("q", "up"));
  EXPECT_THAT(targets(R"("target_modules": ".*\\.(q|v)_proj")", llama), ElementsAre("q", "v"));
  EXPECT_THAT(targets(R"("target_modules": "^(?!.*lm_head).*(q_proj|v_proj)$")", llama),
              ElementsAre("q", "v"));
  // A matcher that backtracks does not end here: one that fails tries every way to split a name.
  EXPECT_THAT(targets(R"("target_modules": "(a*|.*)*(.*)*(.*)*q_proj")", llama), ElementsAre("q"));
  std::string groups;  // whose matches are not needed
  for (int i = 0; i < 400; ++i) groups += "()";
  EXPECT_THAT(targets(concat(R"("target_modules": ")", groups, R"((.*){0,900}q_proj")"), llama),
              ElementsAre("q"));
  EXPECT_THAT(
      targets(R"("target_modules": ["q_proj", "up_proj"], "exclude_modules": ["mlp.up_proj"])",
              llama),
      ElementsAre("q"));
  EXPECT_THAT(targets(R"("target_modules": ["q_proj"], "layers_to_transform": [0, 1],
                         "layers_pattern": "layers")",
                      llama),
              ElementsAre("q"));
  GptSpec gpt;
  gpt.blocks = 1;
  EXPECT_THAT(targets(R"("target_modules": ["transformer.h.0.attn.c_proj"])", gpt),
              ElementsAre("projection"));
  EXPECT_THAT(targets(R"("target_modules": ["c_attn"], "layers_to_transform": 0)", gpt),
              ElementsAre("qkv"));
}

TEST(Adapters, OfSomeBlocksAloneAreRefused) {
  LlamaSpec llama;
  llama.blocks = 2;
  const auto refusal = [&](const std::string& keys) {
    return input_error([&] { read_adapters(described(kUsual + ", " + keys), llama); });
  };
  EXPECT_THAT(refusal(R"("target_modules": ["model.layers.1.self_attn.q_proj"])"),
              HasSubstr("target_modules match self_attn.q_proj in block 1, but not in block 0"));
  EXPECT_THAT(refusal(R"("target_modules": ["q_proj"], "layers_to_transform": 0)"),
              HasSubstr("match self_attn.q_proj in block 0, but not in block 1"));
  EXPECT_THAT(refusal(R"("target_modules": ["model.layers.2.self_attn.q_proj"])"),
              HasSubstr("target_modules[0] is model.layers.2.self_attn.q_proj"));
  EXPECT_THAT(refusal(R"("target_modules": ".*(q_proj|lm_head)$")"),
              HasSubstr("match lm_head, too"));
  EXPECT_THAT(refusal(R"("target_modules": "nothing")"), HasSubstr("match none of the modules"));
  EXPECT_THAT(refusal(R"("target_modules": ["q_proj"], "layers_to_transform": [0, 1],
                         "layers_pattern": ["blocks"])"),
              HasSubstr("layers_pattern[0] is blocks, must be layers"));
}

// peft scales by alpha / sqrt(r) with use_rslora, 16 / sqrt(4) = 8 = 32 / 4.
TEST(Adapters, OfRankStabilisedScalesHaveAnotherAlpha) {
  const Adapters adapters =
      read_adapters(described(R"("peft_type": "LORA", "r": 4, "lora_alpha": 16, "use_rslora": true,
                   "target_modules": ["c_attn"])"),
                    GptSpec{});
  EXPECT_EQ(adapters.alpha, 32);
  GptSpec gpt;
  gpt.lora_rank = 4;
  gpt.lora_alpha = adapters.alpha;
  const io::Node written = io::parse(adapters_config(gpt, "base"), "c.json");
  EXPECT_EQ(written.find("lora_alpha")->number(0, 99), 32);
  EXPECT_FALSE(written.find("use_rslora").has_value());
}

TEST(Adapters, AreDescribedAsTheyAreRead) {
  GptSpec gpt;
  gpt.lora_rank = 3;
  gpt.lora_alpha = 7.5;
  gpt.lora_targets = {"down", "qkv"};
  LlamaSpec llama;
  llama.lora_rank = 16;
  for (const ModelSpec& model : {ModelSpec(gpt), ModelSpec(llama)}) {
    const io::Node document = io::parse(adapters_config(model, "./base"), "c.json");
    EXPECT_EQ(read_adapters(document, model), adapters_of(model));
    EXPECT_EQ(document.find("lora_alpha")->text(),
              std::holds_alternative<GptSpec>(model) ? "7.5" : "16");
    EXPECT_EQ(document.find("base_model_name_or_path")->text(), "./base");
    EXPECT_EQ(document.find("fan_in_fan_out")->boolean(), std::holds_alternative<GptSpec>(model));
  }
  EXPECT_FALSE(adapters_of(GptSpec{}).has_value());
}

class JobWithAdapters : public testing::Test {
 protected:
  JobWithAdapters() {
    io::write_file(weights_ / "config.json",
                   R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 32, "n_head": 2,
                       "n_positions": 64, "vocab_size": 500})");
    io::write_file(adapters_ / kAdaptersFile,
                   description(kUsual + R"(, "target_modules": ["c_attn"])"));
  }
  JobSpec job_with(const std::string& keys) const {
    return read(concat("model: {weights: \"", weights_.path().string(), "\", adapters: \"",
                       adapters_.path().string(), "\"", keys, "}\ndata: {kind: synthetic}\n"));
  }

  TemporaryFolder weights_, adapters_;
};

TEST_F(JobWithAdapters, TakesThemUp) {
  const JobSpec job = job_with("");
  EXPECT_EQ(job.adapters, adapters_.path().string());
  EXPECT_EQ(adapters_of(job.model), (Adapters{.rank = 8, .alpha = 16, .targets = {"qkv"}}));
  EXPECT_NO_THROW(job_with(", lora_rank: 8, lora_alpha: 16, lora_targets: [qkv]"));
  const JobSpec back = read(to_yaml(job));
  EXPECT_EQ(to_yaml(back), to_yaml(job));
  EXPECT_EQ(back.adapters, job.adapters);
}

TEST_F(JobWithAdapters, SaysThatTheyTrainWithoutDropout) {
  EXPECT_THAT(weights_notes(job_with("")),
              ElementsAre(HasSubstr("was made with lora_dropout: 0.05; adapters here train")));
}

TEST_F(JobWithAdapters, IsReadFromARunsOwnFileWithoutThem) {
  const std::string resolved = to_yaml(job_with(""));
  std::filesystem::remove(adapters_ / kAdaptersFile);
  EXPECT_EQ(to_yaml(read(resolved)), resolved);
  EXPECT_THAT(input_error([&] { job_with(""); }), HasSubstr(kAdaptersFile));
}

TEST_F(JobWithAdapters, IsRefusedWhereItSaysOtherwise) {
  EXPECT_THAT(input_error([&] { job_with(", lora_rank: 4"); }),
              HasSubstr("dir/a.yaml:1: model.lora_rank is 4, but the adapters in"));
  EXPECT_THAT(input_error([&] { job_with(", lora_alpha: 8"); }),
              HasSubstr("have 16: leave it out"));
  EXPECT_THAT(input_error([&] { job_with(", lora_targets: [up]"); }),
              HasSubstr("have qkv: leave it"));
  EXPECT_THAT(
      input_error([&] { read("model: {kind: gpt, adapters: x}\ndata: {kind: synthetic}\n"); }),
      HasSubstr("model.adapters need the weights"));
  EXPECT_THAT(input_error([&] {
                read("model: {kind: vit, weights: w, adapters: x}\ndata: {kind: synthetic}\n");
              }),
              HasSubstr("model.adapters is not a key here"));
}

}  // namespace
}  // namespace trireme::config
