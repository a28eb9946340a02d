// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/huggingface.h"

#include "support/input_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::config {
namespace {

using support::input_error;
using testing::HasSubstr;

template <class Spec>
Spec spec_of(const std::string& config) {
  return std::get<Spec>(read_huggingface(io::parse(config, "w/config.json")));
}

/// The config.json that is written for a model.
io::Node written(const ModelSpec& model, const std::optional<io::Node>& began_with = {}) {
  return io::parse(to_huggingface(model, began_with).value(), "config.json");
}

// The keys of https://huggingface.co/openai-community/gpt2/blob/main/config.json that matter.
TEST(HuggingFace, ReadsGpt2) {
  const auto spec = spec_of<GptSpec>(R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257})");
  EXPECT_EQ(spec.blocks, 12);
  EXPECT_EQ(spec.width, 768);
  EXPECT_EQ(spec.heads, 12);
  EXPECT_EQ(spec.context, 1024);
  EXPECT_EQ(spec.vocabulary, 50257);
  EXPECT_EQ(spec.norm_epsilon, 1e-5);
  EXPECT_EQ(spec.dropout, 0);
  EXPECT_TRUE(spec.tied_head);
}

// As https://huggingface.co/meta-llama/Llama-3.2-1B has it.
TEST(HuggingFace, ReadsLlama3) {
  const auto spec = spec_of<LlamaSpec>(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192,
    "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": true, "vocab_size": 128256})");
  EXPECT_EQ(spec.blocks, 16);
  EXPECT_EQ(spec.width, 2048);
  EXPECT_EQ(spec.key_value_heads(), 8);
  EXPECT_EQ(spec.hidden_width(), 8192);
  EXPECT_EQ(spec.context, 1024);
  EXPECT_EQ(spec.rope_base, 500000);
  EXPECT_EQ(spec.rope_scaling, "llama3");
  EXPECT_EQ(spec.rope_factor, 32);
  EXPECT_EQ(spec.rope_original_context, 8192);
  EXPECT_TRUE(spec.tied_head);
}

// As https://huggingface.co/Qwen/Qwen2.5-0.5B has it.
TEST(HuggingFace, ReadsQwen2) {
  const auto spec = spec_of<LlamaSpec>(R"({
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "hidden_act": "silu", "hidden_size": 896, "intermediate_size": 4864,
    "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2",
    "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
    "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_TRUE(spec.qkv_bias);
  EXPECT_EQ(spec.width, 896);
  EXPECT_EQ(spec.key_value_heads(), 2);
  EXPECT_EQ(spec.norm_epsilon, 1e-6);
  EXPECT_EQ(spec.rope_base, 1e6);
}

TEST(HuggingFace, ReadsWhatVersion5OfTransformersWrites) {
  const auto spec = spec_of<LlamaSpec>(R"({
    "model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "sliding_window": null,
    "rope_parameters": {"rope_theta": 1000.0, "rope_type": "linear", "factor": 2.0}})");
  EXPECT_EQ(spec.rope_base, 1000);
  EXPECT_EQ(spec.rope_scaling, "linear");
  EXPECT_EQ(spec.rope_factor, 2);
  EXPECT_EQ(spec.key_value_heads(), 4);
}

TEST(HuggingFace, ReadsWindows) {
  const auto window_of = [](const std::string& more) {
    return spec_of<LlamaSpec>(R"({"model_type": )" + more + "}").window;
  };
  EXPECT_EQ(window_of(R"("mistral", "sliding_window": 512)"), 512);
  EXPECT_EQ(window_of(R"("mistral", "sliding_window": null)"), std::nullopt);
  EXPECT_EQ(window_of(R"("mistral")"), 4096);  // transformers' default
  EXPECT_EQ(window_of(R"("llama")"), std::nullopt);
  EXPECT_EQ(window_of(R"("qwen2", "sliding_window": 512)"), std::nullopt);
  EXPECT_EQ(window_of(R"("qwen2", "sliding_window": 512, "use_sliding_window": true)"), 512);
}

// As Qwen2Config.__post_init__ of transformers 5 chooses layer_types.
TEST(HuggingFace, KnowsWhichLayersOfAQwen2HaveAWindow) {
  const auto window_of = [](const std::string& more) {
    return spec_of<LlamaSpec>(R"({"model_type": "qwen2", "num_hidden_layers": 4,
                                  "use_sliding_window": true)" +
                              more + "}")
        .window;
  };
  EXPECT_EQ(window_of(""), std::nullopt);  // max_window_layers is 28
  EXPECT_EQ(window_of(R"(, "max_window_layers": 4, "sliding_window": 9)"), std::nullopt);
  EXPECT_EQ(window_of(R"(, "max_window_layers": 3, "sliding_window": 9)"), 9);
  EXPECT_EQ(window_of(R"(, "max_window_layers": 0)"), 4096);
  EXPECT_EQ(window_of(R"(, "max_window_layers": 0, "sliding_window": null)"), std::nullopt);
  const std::string full = R"("full_attention", "full_attention", "full_attention", )";
  EXPECT_EQ(
      window_of(R"(, "sliding_window": 9, "layer_types": [)" + full + R"("sliding_attention"])"),
      9);
  EXPECT_EQ(
      window_of(R"(, "max_window_layers": 0, "layer_types": [)" + full + R"("full_attention"])"),
      std::nullopt);
}

// LlamaConfig, MistralConfig, and Qwen2Config of transformers 5.
TEST(HuggingFace, TakesTheDefaultsOfItsKind) {
  const auto of = [](const std::string& kind, const std::string& more = "") {
    return spec_of<LlamaSpec>(R"({"model_type": ")" + kind + "\"" + more + "}");
  };
  EXPECT_EQ(of("llama").key_value_heads(), 32);
  EXPECT_EQ(of("llama").hidden_width(), 11008);
  EXPECT_EQ(of("mistral").key_value_heads(), 8);
  EXPECT_EQ(of("mistral").hidden_width(), 14336);
  EXPECT_EQ(of("mistral", R"(, "num_key_value_heads": null)").key_value_heads(), 32);
  EXPECT_EQ(of("qwen2").hidden_width(), 22016);
  EXPECT_EQ(of("qwen2").vocabulary, 151936);
  EXPECT_EQ(of("qwen2", R"(, "num_attention_heads": 64)").key_value_heads(), 32);
}

// GPT2Config.attribute_map.
TEST(HuggingFace, ReadsAGpt2ByTheNamesOfOtherModels) {
  const auto spec = spec_of<GptSpec>(
      R"({"model_type": "gpt2", "hidden_size": 64, "num_attention_heads": 4,
          "num_hidden_layers": 3, "max_position_embeddings": 32, "n_layer": 3})");
  EXPECT_EQ(spec.width, 64);
  EXPECT_EQ(spec.heads, 4);
  EXPECT_EQ(spec.blocks, 3);
  EXPECT_EQ(spec.context, 32);
}

TEST(HuggingFace, ReadsItsOwnWords) {
  GptSpec gpt{.blocks = 2, .width = 64, .heads = 4, .context = 32, .vocabulary = 300};
  gpt.tied_head = false;
  gpt.norm_epsilon = 1e-6;
  const auto gpt_back = spec_of<GptSpec>(to_huggingface(gpt).value());
  EXPECT_EQ(gpt_back.width, 64);
  EXPECT_EQ(gpt_back.context, 32);
  EXPECT_EQ(gpt_back.norm_epsilon, 1e-6);
  EXPECT_FALSE(gpt_back.tied_head);

  LlamaSpec llama{.blocks = 3, .width = 64, .heads = 4, .kv_heads = 2, .hidden = 96};
  llama.rope_scaling = "llama3";
  llama.rope_original_context = 512;
  llama.tied_head = true;
  const auto llama_back = spec_of<LlamaSpec>(to_huggingface(llama).value());
  EXPECT_EQ(llama_back.blocks, 3);
  EXPECT_EQ(llama_back.kv_heads, 2);
  EXPECT_EQ(llama_back.hidden, 96);
  EXPECT_EQ(llama_back.rope_scaling, "llama3");
  EXPECT_EQ(llama_back.rope_original_context, 512);
  EXPECT_TRUE(llama_back.tied_head);
}

TEST(HuggingFace, KeepsWhatTheWeightsSaidOfSpecialTokens) {
  const io::Node began_with =
      io::parse(R"({"bos_token_id": 1, "eos_token_id": [2, 3], "hidden_size": 9,
                    "max_position_embeddings": 8192})",
                "config.json");
  const io::Node config = written(LlamaSpec{}, began_with);
  EXPECT_EQ(config.find("bos_token_id")->text(), "1");
  ASSERT_EQ(config.find("eos_token_id")->list().size(), 2U);
  EXPECT_EQ(config.find("eos_token_id")->list()[0].text(), "2");
  EXPECT_EQ(config.find("eos_token_id")->list()[1].text(), "3");
  EXPECT_EQ(config.find("pad_token_id")->kind(), io::Node::Kind::kNull);
  EXPECT_EQ(config.find("hidden_size")->text(), "384");
  EXPECT_EQ(config.find("max_position_embeddings")->text(), "8192");
}

// transformers check that a float is none of Python's int.
TEST(HuggingFace, WritesFloatsWithAPoint) {
  const io::Node llama = written(LlamaSpec{.rope_base = 500000});
  EXPECT_EQ(llama.find("rope_theta")->text(), "500000.0");
  EXPECT_EQ(llama.find("rms_norm_eps")->text(), "1e-05");
  EXPECT_EQ(written(GptSpec{}).find("attn_pdrop")->text(), "0.0");
}

TEST(HuggingFace, KnowsNoOtherKinds) {
  EXPECT_EQ(to_huggingface(ResnetSpec{}), std::nullopt);
  EXPECT_EQ(to_huggingface(MlpSpec{}), std::nullopt);
}

struct Refused {
  std::string name, config, message;
};

void PrintTo(const Refused& each, std::ostream* out) {
  *out << each.name;
}

class NotOurModel : public testing::TestWithParam<Refused> {};

TEST_P(NotOurModel, IsRefusedWithTheKey) {
  const io::Node config = io::parse(GetParam().config, "w/config.json");
  const std::string message = input_error([&] { read_huggingface(config); });
  EXPECT_THAT(message, HasSubstr("w/config.json:"));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Configs, NotOurModel,
    testing::Values(
        Refused{"kind", R"({"model_type": "mixtral"})",
                "model_type is mixtral, must be one of gpt2, llama, mistral, qwen2, qwen3"},
        Refused{"with_images", R"({"model_type": "gemma3"})",
                "model_type is gemma3, a model with images, must be that of its text alone, "
                "gemma3_text"},
        Refused{"no_kind", R"({"architectures": []})", "model_type is missing"},
        Refused{"activation", R"({"model_type": "gpt2", "activation_function": "relu"})",
                "activation_function is relu, but only gelu_new"},
        Refused{"inner", R"({"model_type": "gpt2", "n_embd": 64, "n_inner": 128})",
                "n_inner is 128, must be 256"},
        Refused{"scaled", R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})",
                "scale_attn_by_inverse_layer_idx is true"},
        Refused{"two_names", R"({"model_type": "gpt2", "n_head": 4, "num_attention_heads": 8})",
                "num_attention_heads is 8, but n_head, which means the same, is 4"},
        Refused{"quantized",
                R"({"model_type": "llama", "quantization_config": {"quant_method": "fp8"}})",
                "quantization_config is set, but quantized weights are not supported"},
        Refused{"pruned", R"({"model_type": "gpt2", "pruned_heads": {"0": [1]}})",
                "pruned_heads is set"},
        Refused{"cross", R"({"model_type": "gpt2", "add_cross_attention": true})",
                "add_cross_attention is true"},
        Refused{"both_ways", R"({"model_type": "llama", "is_causal": false})",
                "is_causal is not true"},
        Refused{"both_ways_by_null", R"({"model_type": "gpt2", "is_causal": null})",
                "is_causal is not true"},
        Refused{"partial", R"({"model_type": "llama", "partial_rotary_factor": 0.5})",
                "partial_rotary_factor is 0.5, must be 1"},
        Refused{"partial_in_rope",
                R"({"model_type": "llama", "rope_parameters": {"partial_rotary_factor": 0.5}})",
                "rope_parameters.partial_rotary_factor is 0.5, must be 1"},
        Refused{"rope_by_layer",
                R"({"model_type": "qwen2", "rope_parameters": {"full_attention": {}}})",
                "rope_parameters.full_attention is"},
        Refused{"original",
                R"({"model_type": "llama", "original_max_position_embeddings": 64,
                    "rope_scaling": {"rope_type": "llama3", "factor": 2, "low_freq_factor": 1,
                    "high_freq_factor": 4, "original_max_position_embeddings": 32}})",
                "original_max_position_embeddings is 64, must be 32"},
        Refused{
            "layer_types",
            R"({"model_type": "qwen2", "use_sliding_window": true, "num_hidden_layers": 1, "layer_types": ["x"]})",
            "layer_types[0] is"},
        Refused{"too_few_layer_types",
                R"({"model_type": "qwen2", "use_sliding_window": true, "num_hidden_layers": 2,
                    "layer_types": ["full_attention"]})",
                "layer_types has 1 entries, but the model has 2 blocks"},
        Refused{"bias", R"({"model_type": "mistral", "attention_bias": true})",
                "attention_bias is true, but only false is supported here"},
        Refused{"mlp_bias", R"({"model_type": "qwen3", "mlp_bias": true})",
                "mlp_bias is true, but only false is supported here"},
        Refused{"act", R"({"model_type": "olmo2", "hidden_act": "relu2"})",
                "hidden_act is relu2, but only silu or swish or gelu"},
        Refused{"rope", R"({"model_type": "llama", "rope_scaling": {"rope_type": "longrope"}})",
                "rope_scaling.rope_type is longrope, but only default or linear or llama3 or yarn"},
        Refused{
            "rope_of_phi3",
            R"({"model_type": "phi3", "rope_scaling": {"type": "longrope", "short_factor": [1]}})",
            "rope_scaling.type is longrope, but only default is supported here"},
        Refused{"untruncated_yarn",
                R"({"model_type": "qwen3", "rope_scaling": {"rope_type": "yarn", "factor": 4,
                    "original_max_position_embeddings": 32768, "truncate": false}})",
                "rope_scaling.truncate is false"},
        Refused{"no_original_of_yarn",
                R"({"model_type": "qwen3", "rope_scaling": {"rope_type": "yarn", "factor": 4}})",
                "rope_scaling.original_max_position_embeddings is missing, but scaling is yarn"},
        Refused{"gemma_both_ways",
                R"({"model_type": "gemma2", "use_bidirectional_attention": true})",
                "use_bidirectional_attention is true"},
        Refused{"gemma3_cap", R"({"model_type": "gemma3_text", "attn_logit_softcapping": 50.0})",
                "attn_logit_softcapping is 50.0, must be null"},
        Refused{"gemma3_flat_rope",
                R"({"model_type": "gemma3_text", "rope_parameters": {"rope_theta": 1e6}})",
                "rope_parameters.rope_theta is"},
        Refused{"smollm3_windows",
                R"({"model_type": "smollm3", "num_hidden_layers": 1,
                    "layer_types": ["sliding_attention"]})",
                "layer_types has sliding_attention, but use_sliding_window is false"},
        Refused{"too_few_no_rope_layers",
                R"({"model_type": "smollm3", "num_hidden_layers": 2, "no_rope_layers": [1]})",
                "no_rope_layers has 1 entries, but the model has 2 blocks"},
        Refused{
            "two_ropes",
            R"({"model_type": "llama", "rope_parameters": {}, "rope_scaling": {"type": "linear"}})",
            "rope_scaling differs from rope_parameters"},
        Refused{"no_factor", R"({"model_type": "llama", "rope_scaling": {"type": "linear"}})",
                "rope_scaling.factor is missing"},
        Refused{
            "no_original",
            R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8.0}})",
            "rope_scaling.low_freq_factor is missing"}),
    [](const auto& each) { return each.param.name; });

TEST(WeightNames, OfAGptAreTransformersOnes) {
  const WeightNames names(GptSpec{});
  EXPECT_EQ(names.of("embedding", "position.weight"),
            (WeightPlace{.name = "transformer.wpe.weight", .rows_key = "model.positions"}));
  EXPECT_EQ(names.of("block11.attention", "qkv.weight"),
            (WeightPlace{"transformer.h.11.attn.c_attn.weight", true}));
  EXPECT_EQ(names.of("block11.attention", "qkv.bias"),
            (WeightPlace{"transformer.h.11.attn.c_attn.bias"}));
  EXPECT_EQ(names.of("block0.mlp", "norm.bias"), (WeightPlace{"transformer.h.0.ln_2.bias"}));
  EXPECT_EQ(names.of("block0.mlp", "down.weight"),
            (WeightPlace{"transformer.h.0.mlp.c_proj.weight", true}));
  EXPECT_EQ(names.of("head", "norm.weight"), (WeightPlace{"transformer.ln_f.weight"}));
}

TEST(WeightNames, OfALlamaAreTransformersOnes) {
  const WeightNames names(LlamaSpec{});
  EXPECT_EQ(names.of("block2.attention", "k.weight").name,
            "model.layers.2.self_attn.k_proj.weight");
  EXPECT_EQ(names.of("block2.mlp", "gate.weight"),
            (WeightPlace{"model.layers.2.mlp.gate_proj.weight"}));
  EXPECT_EQ(names.of("block2.mlp", "norm.weight").name,
            "model.layers.2.post_attention_layernorm.weight");
  EXPECT_EQ(names.of("head", "output.weight").name, "lm_head.weight");
}

TEST(WeightNames, AreTheSameForEveryGrain) {
  for (const std::string grain : {"block", "half_block", "fine"}) {
    GptSpec spec;
    spec.grain = grain;
    const WeightNames names(spec);
    const WeightPlace up = grain == "block"        ? names.of("block7", "mlp.up.weight")
                           : grain == "half_block" ? names.of("block7.mlp", "up.weight")
                                                   : names.of("block7.mlp.up", "up.weight");
    EXPECT_EQ(up, (WeightPlace{"transformer.h.7.mlp.c_fc.weight", true})) << grain;
    const WeightPlace norm = grain == "block"        ? names.of("block7", "mlp.norm.weight")
                             : grain == "half_block" ? names.of("block7.mlp", "norm.weight")
                                                     : names.of("block7.mlp.up", "norm.weight");
    EXPECT_EQ(norm, (WeightPlace{"transformer.h.7.ln_2.weight"})) << grain;
  }
}

TEST(WeightNames, OfATiedHeadAreTheEmbeddings) {
  GptSpec tied, loose;
  tied.tied_head = true;
  loose.tied_head = false;
  EXPECT_EQ(WeightNames(tied).of("head", "output.weight").name, "transformer.wte.weight");
  EXPECT_EQ(WeightNames(tied).extra("lm_head.weight"), Extra::kTiedHead);
  EXPECT_EQ(WeightNames(loose).of("head", "output.weight").name, "lm_head.weight");
  EXPECT_EQ(WeightNames(loose).extra("lm_head.weight"), Extra::kNone);
}

TEST(WeightNames, AreCompletedWhereAFileIsOfAModelWithoutItsHead) {
  EXPECT_EQ(WeightNames(GptSpec{}).with_head("h.0.ln_1.bias"), "transformer.h.0.ln_1.bias");
  EXPECT_EQ(WeightNames(GptSpec{}).with_head("transformer.wte.weight"), "transformer.wte.weight");
  EXPECT_EQ(WeightNames(LlamaSpec{}).with_head("norm.weight"), "model.norm.weight");
  EXPECT_EQ(WeightNames(LlamaSpec{}).with_head("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(WeightNames(MlpSpec{}).with_head("hidden0.weight"), "hidden0.weight");
}

TEST(WeightNames, KnowMasksAndTablesBesideTheParameters) {
  const WeightNames gpt{GptSpec{}}, llama{LlamaSpec{}};
  EXPECT_EQ(gpt.extra("transformer.h.10.attn.bias"), Extra::kCausalMask);
  EXPECT_EQ(gpt.extra("transformer.h.0.attn.masked_bias"), Extra::kMaskedScore);
  EXPECT_EQ(llama.extra("model.layers.0.self_attn.rotary_emb.inv_freq"), Extra::kAngles);
  EXPECT_EQ(llama.extra("model.rotary_emb.inv_freq"), Extra::kAngles);
  for (const std::string name :
       {"transformer.h.0.attn.c_attn.bias", "transformer.h..attn.bias", "transformer.h.x.attn.bias",
        "other.attn.bias", "model.layers.0.self_attn.rotary_emb.inv_freq"})
    EXPECT_EQ(gpt.extra(name), Extra::kNone) << name;
  EXPECT_EQ(llama.extra("transformer.h.0.attn.bias"), Extra::kNone);
  EXPECT_EQ(WeightNames(VitSpec{}).extra("block1.attn.bias"), Extra::kNone);
}

TEST(WeightNames, OfOtherKindsAreLayerAndName) {
  EXPECT_EQ(WeightNames(VitSpec{}).of("block1.mlp", "up.weight"),
            (WeightPlace{"block1.mlp.up.weight"}));
  EXPECT_EQ(WeightNames(ResnetSpec{}).of("stem", "norm.mean"), (WeightPlace{"stem.norm.mean"}));
}

}  // namespace
}  // namespace trireme::config
