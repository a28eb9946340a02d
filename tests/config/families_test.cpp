// Families of decoders: their config.json and names of weights. tests/app/families_test.py compares
// them with transformers.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/huggingface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::config {
namespace {

LlamaSpec spec_of(const std::string& config) {
  return std::get<LlamaSpec>(read_huggingface(io::parse(config, "w/config.json")));
}

/// The config.json that is written for a model.
io::Node written(const ModelSpec& model, const std::optional<io::Node>& began_with = {}) {
  return io::parse(to_huggingface(model, began_with).value(), "config.json");
}

// As https://huggingface.co/Qwen/Qwen3-0.6B has it.
TEST(Families, ReadQwen3) {
  const auto spec = spec_of(R"({
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
    "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_EQ(spec.head_size(), 128);
  EXPECT_EQ(spec.width, 1024);
  EXPECT_EQ(spec.qk_norm, "head");
  EXPECT_EQ(spec.norms, "before");
  EXPECT_FALSE(spec.qkv_bias);
  EXPECT_TRUE(spec.tied_head);
}

// Gemma2Config of transformers 5, and the paper (Gemma team 2024, table 1).
TEST(Families, ReadGemma2) {
  const auto spec = spec_of(R"({"model_type": "gemma2", "num_hidden_layers": 4})");
  EXPECT_EQ(spec.norms, "both");
  EXPECT_TRUE(spec.zero_centered_norms);
  EXPECT_EQ(spec.activation, "gelu_tanh");
  EXPECT_DOUBLE_EQ(spec.embedding_scale, 48);  // the root of 2304
  EXPECT_EQ(spec.score_scale(), 1.0 / 16);
  EXPECT_EQ(spec.attention_cap, 50);
  EXPECT_EQ(spec.logits_cap, 30);
  EXPECT_EQ(spec.window, 4096);
  EXPECT_EQ(spec.window_blocks, (std::vector<int>{0, 2}));
}

// Both ways in which gemma 3 says its two bases; in the second Gemma3TextConfig has five windowed
// blocks to one without.
TEST(Families, ReadGemma3) {
  for (const std::string rope :
       {R"("rope_theta": 1e6, "rope_local_base_freq": 2e4,
           "rope_scaling": {"rope_type": "linear", "factor": 8.0})",
        R"("rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0},
           "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}})"}) {
    const auto spec =
        spec_of(R"({"model_type": "gemma3_text", "num_hidden_layers": 7, )" + rope + "}");
    EXPECT_EQ(spec.rope_base, 1e6);
    EXPECT_EQ(spec.window_rope_base, 2e4);
    EXPECT_EQ(spec.rope_scaling, "linear");
    EXPECT_EQ(spec.rope_factor, 8);
    EXPECT_EQ(spec.window_blocks, (std::vector<int>{0, 1, 2, 3, 4, 6}));
    EXPECT_EQ(spec.logits_cap, 0);
  }
}

TEST(Families, ReadPhi3AndSmollm3AndGranite) {
  const auto phi = spec_of(R"({"model_type": "phi3", "partial_rotary_factor": 0.75})");
  EXPECT_TRUE(phi.fused_linears);
  EXPECT_EQ(phi.rotated_values(), 72);
  const auto smollm = spec_of(R"({"model_type": "smollm3", "num_hidden_layers": 9})");
  EXPECT_EQ(smollm.unrotated_blocks, (std::vector<int>{3, 7}));
  EXPECT_EQ(smollm.rope_base, 2e6);
  EXPECT_FALSE(smollm.window);
  const auto granite = spec_of(
      R"({"model_type": "granite", "attention_multiplier": 0.0078125, "embedding_multiplier": 12,
          "residual_multiplier": 0.22, "logits_scaling": 16})");
  EXPECT_EQ(granite.score_scale(), 0.0078125);
  EXPECT_EQ(granite.embedding_scale, 12);
  EXPECT_EQ(granite.residual_scale, 0.22);
  EXPECT_EQ(granite.logits_divisor, 16);
}

// _compute_yarn_parameters of transformers 5: 0.1 ln(factor) + 1, or DeepSeek's quotient.
TEST(Families, ReadYarn) {
  const auto spec = [](const std::string& more) {
    return spec_of(R"({"model_type": "qwen3", "rope_scaling": {"rope_type": "yarn",
        "factor": 4.0, "original_max_position_embeddings": 32768)" +
                   more + "}}");
  };
  EXPECT_EQ(spec("").rope_scaling, "yarn");
  EXPECT_EQ(spec("").rope_high_turns, 32);
  EXPECT_EQ(spec("").rope_low_turns, 1);
  EXPECT_NEAR(spec("").rope_attention_factor, 1.13863, 1e-5);
  EXPECT_EQ(spec(R"(, "attention_factor": 1.5, "beta_fast": 8)").rope_attention_factor, 1.5);
  EXPECT_NEAR(spec(R"(, "mscale": 1.0, "mscale_all_dim": 2.0)").rope_attention_factor,
              1.13863 / 1.27726, 1e-5);
}

/// A family's name, and config.json words that change every part that it has from its default.
const std::vector<std::pair<std::string, std::string>> kFamilies{
    {"llama", R"("attention_bias": true, "mlp_bias": true, "head_dim": 64)"},
    {"mistral", R"("sliding_window": 9)"},
    {"qwen2", R"("use_sliding_window": true, "max_window_layers": 2)"},
    {"qwen3", R"("attention_bias": true, "use_sliding_window": true, "max_window_layers": 1)"},
    {"olmo2", R"("attention_bias": true)"},
    {"granite", R"("attention_multiplier": 0.3, "logits_scaling": 49, "residual_multiplier": 0.2)"},
    {"smollm3", R"("use_sliding_window": true, "sliding_window": 9, "no_rope_layers": [0, 1, 1])"},
    {"phi3", R"("partial_rotary_factor": 0.25, "sliding_window": 9)"},
    {"gemma", R"("head_dim": 64, "hidden_act": "gelu")"},
    {"gemma2", R"("query_pre_attn_scalar": 224, "attn_logit_softcapping": null)"},
    {"gemma3_text", R"("query_pre_attn_scalar": 168, "final_logit_softcapping": 3.5)"}};

TEST(Families, AreWrittenAsTheyAreRead) {
  for (const auto& [family, words] : kFamilies) {
    const auto spec =
        spec_of(R"({"model_type": ")" + family + R"(", "num_hidden_layers": 3, )" + words + "}");
    EXPECT_EQ(written(spec).find("model_type")->text(), family);
    EXPECT_EQ(spec_of(to_huggingface(spec).value()), spec) << family;
  }
}

// A mistral without a window has the parts of a llama.
TEST(Families, AreThatOfTheWeightsIfItHasAllParts) {
  LlamaSpec spec;
  const io::Node mistral = io::parse(R"({"model_type": "mistral"})", "w/config.json");
  EXPECT_EQ(written(spec).find("model_type")->text(), "llama");
  EXPECT_EQ(written(spec, mistral).find("model_type")->text(), "mistral");
  spec.mlp_bias = true;
  EXPECT_EQ(written(spec, mistral).find("model_type")->text(), "llama");
}

TEST(Families, HaveNoWordsForPartsThatNoneHasTogether) {
  LlamaSpec spec;
  spec.norms = "after";  // olmo2
  EXPECT_EQ(to_huggingface(spec), std::nullopt);
  spec.qk_norm = "all";
  EXPECT_TRUE(to_huggingface(spec));
  spec.logits_cap = 30;  // gemma2
  EXPECT_EQ(to_huggingface(spec), std::nullopt);
}

// Olmo2DecoderLayer, Gemma2DecoderLayer and Phi3DecoderLayer of transformers 5.
TEST(WeightNames, OfNormsAfterABranchAndOfFusedLinears) {
  const auto name_of = [](const LlamaSpec& spec, const std::string& layer,
                          const std::string& name) {
    return WeightNames(spec).of(layer, name).name;
  };
  const LlamaSpec after{.norms = "after", .qk_norm = "all"}, both{.norms = "both"},
      fused{.fused_linears = true};
  const std::string block = "model.layers.1.";
  EXPECT_EQ(name_of(after, "block1.attention", "after_norm.weight"),
            block + "post_attention_layernorm.weight");
  EXPECT_EQ(name_of(after, "block1.mlp", "after_norm.weight"),
            block + "post_feedforward_layernorm.weight");
  EXPECT_EQ(name_of(after, "block1.attention", "q_norm.weight"), block + "self_attn.q_norm.weight");
  EXPECT_EQ(name_of(both, "block1.attention", "norm.weight"), block + "input_layernorm.weight");
  EXPECT_EQ(name_of(both, "block1.attention", "after_norm.weight"),
            block + "post_attention_layernorm.weight");
  EXPECT_EQ(name_of(both, "block1.mlp", "norm.weight"), block + "pre_feedforward_layernorm.weight");
  EXPECT_EQ(name_of(fused, "block1.attention", "qkv.weight"), block + "self_attn.qkv_proj.weight");
  EXPECT_EQ(name_of(fused, "block1.mlp", "gate_up.weight"), block + "mlp.gate_up_proj.weight");
}

}  // namespace
}  // namespace trireme::config
