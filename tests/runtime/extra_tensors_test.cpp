// Tensors of weight files that are not parameters of the model: accepted where they change nothing,
// refused with their name where they would make it another model.
// SPDX-License-Identifier: Apache-2.0
#include "made_up.h"
#include "small_runs.h"
#include "state/tensor_bytes.h"
#include "state/tensor_types.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/checkpoint/tensor_set.h"
#include "trireme/config/adapters.h"
#include "trireme/runtime/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <ostream>

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;
using support::input_error;
using support::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

using Tensors = std::map<std::string, at::Tensor>;

Tensors read(const fs::path& file) {
  Tensors tensors;
  const checkpoint::TensorSet set = checkpoint::find_tensors(file);
  for (const auto& [name, entry] : set.tensors) {
    at::Tensor value = at::empty(entry.sizes, type_named(entry.type, name));
    checkpoint::read_tensor(set.folder, name, entry, writable_bytes_of(value));
    tensors[name] = value;
  }
  return tensors;
}

void write(const Tensors& tensors, const fs::path& file) {
  std::vector<checkpoint::Spec> specs;
  for (const auto& [name, value] : tensors)
    specs.push_back({.name = name,
                     .type = type_name(value.scalar_type()),
                     .sizes = value.sizes().vec(),
                     .size = Bytes(static_cast<std::int64_t>(value.nbytes())),
                     .is_constant = true});
  checkpoint::TensorFile out(file, specs);
  for (const auto& [name, value] : tensors) out.append(bytes_of(value.contiguous()));
  out.finish();
}

config::GptSpec tied_gpt() {
  config::GptSpec spec = vector_gpt();
  spec.tied_head = true;
  return spec;
}

config::LlamaSpec llama(bool is_tied) {
  config::LlamaSpec spec = vector_llama();
  spec.tied_head = is_tied;
  spec.rope_base = 500;
  return spec;
}

config::LlamaSpec scaled_llama() {
  config::LlamaSpec spec = llama(false);
  spec.rope_scaling = "linear";
  spec.rope_factor = 2;
  return spec;
}

/// radians(i) = base^(-2 i / D), D = 8: https://arxiv.org/abs/2104.09864, section 3.2.2.
at::Tensor angles(double base = 500) {
  return at::tensor({1.0, std::pow(base, -0.25), std::pow(base, -0.5), std::pow(base, -0.75)},
                    at::kFloat);
}

at::Tensor causal(std::int64_t n) {
  return at::ones({1, 1, n, n}).tril();
}

/// A change to a file of such weights, and the tensor that is named where it is refused.
struct Case {
  const char* name;
  config::ModelSpec model;
  void (*change)(Tensors& tensors);
  const char* refused = nullptr;  ///< the tensor
  const char* said = "";
};

std::ostream& operator<<(std::ostream& out, const Case& each) {
  return out << each.name;
}

constexpr const char* kWte = "transformer.wte.weight";
constexpr const char* kTokens = "model.embed_tokens.weight";

const Case kCases[] = {
    {"GptHeadThatIsTheEmbedding", tied_gpt(),
     [](Tensors& t) { t["lm_head.weight"] = t.at(kWte).clone(); }},
    {"GptHeadWithOneOtherValue", tied_gpt(),
     [](Tensors& t) {
       t["lm_head.weight"] = t.at(kWte).clone();
       t["lm_head.weight"][-1][-1] += 1e-6;
     },
     "lm_head.weight", "has other values than 'transformer.wte.weight'"},
    {"LlamaHeadThatIsTheEmbedding", llama(true),
     [](Tensors& t) { t["lm_head.weight"] = t.at(kTokens).clone(); }},
    {"LlamaHeadInAnotherTypeWithTheSameValues", llama(true),
     [](Tensors& t) {
       t[kTokens] = t.at(kTokens).to(at::kBFloat16).to(at::kFloat);
       t["lm_head.weight"] = t.at(kTokens).to(at::kBFloat16);
     }},
    {"LlamaHeadWithOtherValues", llama(true),
     [](Tensors& t) { t["lm_head.weight"] = t.at(kTokens) * 0.5; }, "lm_head.weight",
     "tie_word_embeddings: false"},
    {"HeadOfOtherSizes", llama(true),
     [](Tensors& t) { t["lm_head.weight"] = t.at(kTokens).narrow(0, 0, 15).clone(); },
     "lm_head.weight", "has other values"},
    {"HeadWithoutNumbers", llama(true),
     [](Tensors& t) {
       t["lm_head.weight"] = t.at(kTokens).clone();
       t["lm_head.weight"][0][0] = std::numeric_limits<float>::infinity();
     },
     "lm_head.weight", "has other values"},
    {"CausalMask", tied_gpt(),
     [](Tensors& t) {
       t["transformer.h.0.attn.bias"] = causal(32);
       t["transformer.h.1.attn.bias"] = causal(64).to(at::kByte);
     }},
    {"CausalMaskOfTruths", tied_gpt(),
     [](Tensors& t) { t["transformer.h.0.attn.bias"] = causal(32).to(at::kBool); }},
    {"CausalMaskOfAModelWithoutItsHead", tied_gpt(),
     [](Tensors& t) { t["h.1.attn.bias"] = causal(32); }},
    {"MaskThatShowsAll", tied_gpt(),
     [](Tensors& t) {
       t["transformer.h.1.attn.bias"] = at::ones({1, 1, 32, 32});
     },
     "transformer.h.1.attn.bias", "ones up to the diagonal"},
    {"MaskWithAWindow", tied_gpt(),
     [](Tensors& t) { t["transformer.h.1.attn.bias"] = causal(32).triu(-4); },
     "transformer.h.1.attn.bias", "ones up to the diagonal"},
    {"MaskOfOtherSizes", tied_gpt(),
     [](Tensors& t) {
       t["transformer.h.0.attn.bias"] = at::ones({32, 32}).tril();
     },
     "transformer.h.0.attn.bias", "[1, 1, n, n]"},
    {"MaskedScores", tied_gpt(),
     [](Tensors& t) {
       t["transformer.h.0.attn.masked_bias"] = at::full({}, -1e4);
       t["transformer.h.1.attn.masked_bias"] = at::full({1}, -1e9);
     }},
    {"MaskedScoreThatShowsALittle", tied_gpt(),
     [](Tensors& t) { t["transformer.h.0.attn.masked_bias"] = at::full({}, -5.0); },
     "transformer.h.0.attn.masked_bias", "-10000"},
    {"Angles", llama(false), [](Tensors& t) { t["model.rotary_emb.inv_freq"] = angles(); }},
    {"AnglesOfEveryBlockInNarrowTypes", llama(false),
     [](Tensors& t) {
       t["model.layers.0.self_attn.rotary_emb.inv_freq"] = angles().to(at::kHalf);
       t["model.layers.1.self_attn.rotary_emb.inv_freq"] = angles().to(at::kBFloat16);
     }},
    {"AnglesBeforeTheirScaling", scaled_llama(),
     [](Tensors& t) { t["model.rotary_emb.inv_freq"] = angles(); }},
    {"AnglesOfAnotherBase", llama(false),
     [](Tensors& t) { t["model.layers.1.self_attn.rotary_emb.inv_freq"] = angles(1e4); },
     "model.layers.1.self_attn.rotary_emb.inv_freq", "rope_theta"},
    {"AnglesOfAnotherHead", llama(false),
     [](Tensors& t) {
       t["model.rotary_emb.inv_freq"] = at::cat({angles(), angles()});
     },
     "model.rotary_emb.inv_freq", "rope_theta"},
    {"ATensorOfNoName", llama(false), [](Tensors& t) { t["model.extra"] = at::ones({2}); },
     "model.extra", "model does not have"},
    {"ABias", llama(false),
     [](Tensors& t) { t["model.layers.0.self_attn.q_proj.bias"] = at::zeros({16}); },
     "model.layers.0.self_attn.q_proj.bias", "model does not have"},
    {"ABlockMore", llama(false),
     [](Tensors& t) {
       for (const auto& [name, value] : Tensors(t))
         if (name.starts_with("model.layers.1.")) t["model.layers.2." + name.substr(15)] = value;
     },
     "model.layers.2.", "and 8 more tensors"},
    {"AnglesOfAModelThatHasNone", tied_gpt(),
     [](Tensors& t) { t["model.rotary_emb.inv_freq"] = angles(); }, "model.rotary_emb.inv_freq",
     "model does not have"},
    {"AnotherHeadsMask", llama(false),
     [](Tensors& t) { t["transformer.h.0.attn.bias"] = causal(32); }, "transformer.h.0.attn.bias",
     "model does not have"},
    {"AdaptersAmongTheWeights", llama(false),
     [](Tensors& t) {
       t["model.layers.0.self_attn.q_proj.lora_A.weight"] = at::zeros({2, 16});
     },
     "model.layers.0.self_attn.q_proj.lora_A.weight", "model does not have"},
    {"OneTensorTwice", tied_gpt(), [](Tensors& t) { t["wte.weight"] = t.at(kWte).clone(); },
     "transformer.wte.weight", "twice"},
};

class ExtraTensors : public testing::TestWithParam<Case> {};

TEST_P(ExtraTensors, AreTakenOnlyWhereTheySayNothingNew) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(GetParam().model);
  const fs::path plain = folder / "plain.safetensors", other = folder / "other.safetensors";
  make_up(train_and_export(job, folder).weights, plain);
  const Tensors parameters = read(plain);
  Tensors tensors = parameters;
  GetParam().change(tensors);
  write(tensors, other);
  const model::ChainModel model = model::make_model(job.model);
  const auto logits_of = [&](const fs::path& weights) {
    return LanguageModel::of_weights(model, job.model, weights).next(vector_tokens());
  };
  job.weights = other.string();
  if (GetParam().refused == nullptr) {
    EXPECT_NO_THROW(require_weights(model, job));
    std::erase_if(tensors, [&](const auto& each) { return !parameters.contains(each.first); });
    write(tensors, folder / "alone.safetensors");
    EXPECT_TRUE(at::equal(logits_of(other), logits_of(folder / "alone.safetensors")));
    return;
  }
  const auto is_told = AllOf(HasSubstr("other.safetensors: "), HasSubstr(GetParam().refused),
                             HasSubstr(GetParam().said));
  EXPECT_THAT(input_error([&] { require_weights(model, job); }), is_told);
  EXPECT_THAT(input_error([&] { logits_of(other); }), is_told);
  EXPECT_THAT(input_error([&] { run_small(job, {.cut = {2}}); }), is_told);
}

INSTANTIATE_TEST_SUITE_P(Files, ExtraTensors, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace trireme::runtime
