// Adapters as Hugging Face's peft describes them.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/adapters.h"

#include "read.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/config/huggingface.h"
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
       {R"("use_bdlora": {"a": 1})", R"("use_rslora": true)", R"("modules_to_save": ["lm_head"])",
        R"("rank_pattern": {"q_proj": 4})", R"("layers_to_transform": [1])", R"("of_tomorrow": 1)"})
    EXPECT_THAT(refusal(concat(kUsual, beside, ", ", key)),
                HasSubstr("their values would mean something else"))
        << key;
  EXPECT_THAT(refusal(R"("peft_type": "LORA", "bias": "all")"), HasSubstr("bias is all"));
  EXPECT_THAT(refusal(R"("peft_type": "LORA", "init_lora_weights": "pissa")"),
              HasSubstr("init_lora_weights is pissa"));
  EXPECT_THAT(refusal(R"("peft_type": "LORA", "target_modules": ["q_proj"])"),
              HasSubstr("r is missing"));
  EXPECT_THAT(refusal(kUsual), HasSubstr("target_modules is missing"));
  EXPECT_THAT(
      refusal(kUsual + R"(, "target_modules": ["q_proj", "lm_head"])"),
      HasSubstr("target_modules[1] is lm_head, but adapters here stand beside self_attn.q_proj"));
  EXPECT_THAT(refusal(kUsual + R"(, "target_modules": ".*q_proj")"),
              HasSubstr("must be a list of"));
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
      HasSubstr("model.adapters stand beside weights"));
  EXPECT_THAT(input_error([&] {
                read("model: {kind: vit, weights: w, adapters: x}\ndata: {kind: synthetic}\n");
              }),
              HasSubstr("model.adapters is not a key here"));
}

}  // namespace
}  // namespace trireme::config
