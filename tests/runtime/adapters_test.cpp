// Adapters from and for other programs: compared with Hugging Face's peft, and a round trip.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/adapters.h"

#include "made_up.h"
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/runtime/weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;
using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

config::LlamaSpec tuned_llama() {
  config::LlamaSpec spec = vector_llama();
  spec.kv_heads = 1;
  spec.rope_base = 100;
  spec.lora_rank = 2;
  spec.lora_alpha = 5;
  spec.lora_targets = {"q", "v", "projection", "down"};
  return spec;
}

config::GptSpec tuned_gpt() {
  config::GptSpec spec = vector_gpt();
  spec.lora_rank = 3;
  spec.lora_alpha = 6;
  spec.lora_targets = {"qkv", "down"};
  return spec;
}

/// Files of weights and of adapters for them, with made-up values.
struct MadeUp {
  fs::path weights, adapters;
};

MadeUp made_up(const config::ModelSpec& model, const TemporaryFolder& folder) {
  const Trained trained = train_and_export(small_job(model), folder);
  const MadeUp made{folder / "made-up.safetensors", folder / "adapters"};
  make_up(trained.weights, made.weights);
  fs::create_directory(made.adapters);
  const fs::path drawn = folder / "drawn.safetensors";
  export_adapters(trained.checkpoint, model, at::kFloat, drawn);
  make_up(drawn, made.adapters / config::kAdaptersValues);
  return made;
}

/// A job whose training changes nothing.
config::JobSpec still_job(const config::ModelSpec& model, const MadeUp& begin) {
  config::JobSpec job = small_job(model);
  job.weights = begin.weights.string();
  job.adapters = begin.adapters.string();
  job.train.steps = 1;
  job.train.optimizer.learning_rate = 0;
  return job;
}

struct Vector {
  std::string name;
  config::ModelSpec model;
  std::vector<double> logits;  ///< of the token after vector_tokens()
};

void PrintTo(const Vector& each, std::ostream* out) {
  *out << each.name;
}

/// Printed by huggingface_vectors.py, which runs transformers and peft.
std::vector<Vector> vectors() {
  const std::vector<double> gpt{0.54743,  -0.33769, -0.68454, 0.05976, 0.70881,  0.22802,
                                -0.61623, -0.47821, 0.42207,  0.64958, -0.15834, -0.71386,
                                -0.1315,  0.66047,  0.39966,  -0.49821};
  const std::vector<double> llama{0.7806,   1.55183,  -0.15054, -1.61295, -0.50433, 1.40818,
                                  1.07607,  -0.97129, -1.47042, 0.37428,  1.62238,  0.28442,
                                  -1.50691, -0.89624, 1.14303,  1.36032};
  config::GptSpec fine_gpt = tuned_gpt();
  fine_gpt.grain = "fine";
  return {{"gpt", tuned_gpt(), gpt}, {"gpt_fine", fine_gpt, gpt}, {"llama", tuned_llama(), llama}};
}

class OfPeft : public testing::TestWithParam<Vector> {};

TEST_P(OfPeft, AdaptersMeanTheSameHere) {
  const TemporaryFolder folder, out;
  const config::ModelSpec& model = GetParam().model;
  const config::JobSpec job = still_job(model, made_up(model, folder));
  EXPECT_NO_THROW(require_weights(model::make_model(model), job));
  const Trained begun = train_and_export(job, out, {.cut = {2}});
  const at::Tensor logits = LanguageModel::of_checkpoint(model::make_model(model), begun.checkpoint)
                                .next(vector_tokens());
  EXPECT_LT((logits - at::tensor(GetParam().logits)).abs().max().item<double>(), 1e-4) << logits;
}

INSTANTIATE_TEST_SUITE_P(Models, OfPeft, testing::ValuesIn(vectors()),
                         [](const auto& each) { return each.param.name; });

/// Digests of the adapters in a checkpoint.
std::map<std::string, std::string> adapters_of(const fs::path& checkpoint) {
  std::map<std::string, std::string> digests;
  for (const auto& [name, entry] : checkpoint::load_manifest(checkpoint).tensors)
    if (name.starts_with("parameters/") && config::is_adapter(name)) digests[name] = entry.digest;
  return digests;
}

TEST(Adapters, GoOutAndBeginARunWithTheSameBits) {
  for (const config::ModelSpec& model : {config::ModelSpec(tuned_gpt()), {tuned_llama()}}) {
    for (const char* const precision : {"float32", "bfloat16_weights"}) {
      const TemporaryFolder folder, learned, begun;
      const MadeUp first = made_up(model, folder);
      config::JobSpec job = still_job(model, first);
      job.train.precision = precision;
      job.train.steps = 2;
      job.train.optimizer.learning_rate = 1e-2;
      const Trained trained = train_and_export(job, learned);
      const MadeUp next{first.weights, learned / "adapters"};
      fs::create_directory(next.adapters);
      export_adapters(trained.checkpoint, model, at::kFloat,
                      next.adapters / config::kAdaptersValues);

      config::JobSpec still = still_job(model, next);
      still.train.precision = precision;
      const Trained again = train_and_export(still, begun, {.cut = {1, 4}});

      EXPECT_EQ(again.summary.parameters_digest, trained.summary.parameters_digest);
      EXPECT_EQ(adapters_of(again.checkpoint), adapters_of(trained.checkpoint));
    }
  }
}

TEST(Adapters, OfOtherSizesOrWithMoreAreRefused) {
  const TemporaryFolder folder;
  const MadeUp made = made_up(tuned_gpt(), folder);
  const auto refusal = [&](const config::GptSpec& spec) {
    const config::JobSpec job = still_job(spec, made);
    return input_error([&] { require_weights(model::make_model(spec), job); });
  };
  config::GptSpec other = tuned_gpt();
  other.lora_rank = 4;
  EXPECT_THAT(refusal(other),
              HasSubstr("adapters/adapter_model.safetensors: tensor "
                        "'base_model.model.transformer.h.0.attn.c_attn.lora_A.weight' is F32"));
  other = tuned_gpt();
  other.lora_targets = {"qkv"};
  EXPECT_THAT(
      refusal(other),
      HasSubstr("has 'base_model.model.transformer.h.0.mlp.c_proj.lora_A.weight' and 3 more "
                "tensors that this job's model does not have"));
  other.lora_targets = {"qkv", "down", "up"};
  EXPECT_THAT(refusal(other),
              HasSubstr("has no tensor 'base_model.model.transformer.h.0.mlp.c_fc.lora_A.weight'"));
}

TEST(Adapters, AloneAreNoWholeOfARunThatHasTrainedMore) {
  config::GptSpec spec = tuned_gpt();
  spec.trained = {"*lora*", "head.norm.*"};
  const TemporaryFolder folder;
  const Trained trained = train_and_export(small_job(spec), folder);
  EXPECT_THAT(input_error([&] {
                export_adapters(trained.checkpoint, spec, at::kFloat, folder / "a.safetensors");
              }),
              HasSubstr("the run has trained head.norm.bias in addition to its adapters"));
  EXPECT_FALSE(fs::exists(folder / "a.safetensors"));
}

}  // namespace
}  // namespace trireme::runtime
