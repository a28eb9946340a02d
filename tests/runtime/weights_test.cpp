// Weights from and for other programs: compared with Hugging Face's transformers, and a round trip.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/weights.h"

#include "made_up.h"
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/checkpoint/tensor_set.h"
#include "trireme/core/text.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;
using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

/// A step that changes nothing, starting from these weights.
RunSummary run_unchanged(config::JobSpec job, const fs::path& weights, const Split& split = {}) {
  job.weights = weights.string();
  job.train.steps = 1;
  job.train.optimizer.learning_rate = 0;
  return run_small(job, split);
}

struct Vector {
  std::string name;
  config::ModelSpec model;
  std::vector<double> logits;  ///< of the token after (7 i + 3) mod 16, i = 0..11
};

void PrintTo(const Vector& each, std::ostream* out) {
  *out << each.name;
}

/// Printed by huggingface_vectors.py, which runs transformers itself.
std::vector<Vector> vectors() {
  const std::vector<double> gpt2{-4.71291, -4.33564, 2.95259,  5.53442,  -0.70556, -5.82089,
                                 -1.65777, 5.14782,  3.74784,  -3.62616, -5.22009, 1.50675,
                                 5.83185,  0.86104,  -5.48226, -3.08689};
  std::vector<Vector> all;
  for (const std::string grain : {"block", "half_block", "fine"}) {
    config::GptSpec gpt = vector_gpt();
    gpt.grain = grain;
    all.push_back({"gpt2_" + grain, gpt, gpt2});
  }
  config::LlamaSpec llama = vector_llama();
  llama.kv_heads = 1;
  llama.rope_base = 100;
  all.push_back({"llama",
                 llama,
                 {0.74662, 2.00188, 0.06617, -1.97501, -0.86804, 1.62258, 1.52682, -1.00268,
                  -1.93392, 0.21749, 2.02222, 0.60356, -1.77717, -1.3251, 1.23917, 1.82822}});
  config::LlamaSpec linear = vector_llama();
  linear.tied_head = true;
  linear.norm_epsilon = 1e-3;
  linear.rope_base = 1000;
  linear.rope_scaling = "linear";
  linear.rope_factor = 2;
  all.push_back({"llama_tied_linear",
                 linear,
                 {2.05138, 0.20785, -1.96699, -1.00647, 1.55836, 1.63917, -0.89284, -2.00168,
                  0.08014, 2.03421, 0.74577, -1.73142, -1.44875, 1.14322, 1.9129, -0.36656}});
  config::LlamaSpec llama3 = vector_llama();
  llama3.grain = "fine";
  llama3.rope_base = 50;
  llama3.rope_scaling = "llama3";
  llama3.rope_factor = 4;
  llama3.rope_original_context = 16;
  all.push_back({"llama3",
                 llama3,
                 {0.72056, 2.04207, 0.10854, -1.998, -0.91974, 1.62458, 1.57934, -0.98335, -1.97859,
                  0.18003, 2.05168, 0.65298, -1.78657, -1.37834, 1.22695, 1.87649}});
  config::LlamaSpec qwen2 = vector_llama();
  qwen2.kv_heads = 1;
  qwen2.qkv_bias = true;
  qwen2.norm_epsilon = 1e-6;
  qwen2.rope_base = 200;
  all.push_back({"qwen2",
                 qwen2,
                 {0.07043, 1.2534, 0.43846, -1.07538, -0.87508, 0.72009, 1.16744, -0.24609,
                  -1.26736, -0.26846, 1.15836, 0.73877, -0.85841, -1.08729, 0.41696, 1.25658}});
  return all;
}

class OfHuggingFace : public testing::TestWithParam<Vector> {};

TEST_P(OfHuggingFace, WeightsMeanTheSameHere) {
  const TemporaryFolder folder;
  const Trained trained = train_and_export(small_job(GetParam().model), folder);
  make_up(trained.weights, folder / "made-up.safetensors");

  const LanguageModel model = LanguageModel::of_weights(
      model::make_model(GetParam().model), GetParam().model, folder / "made-up.safetensors");
  const at::Tensor logits = model.next(vector_tokens());

  const at::Tensor expected = at::tensor(GetParam().logits);
  EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-4) << logits;
}

INSTANTIATE_TEST_SUITE_P(Models, OfHuggingFace, testing::ValuesIn(vectors()),
                         [](const auto& each) { return each.param.name; });

struct Circle {
  std::string name;
  config::ModelSpec model;
  std::string precision = "float32";
  Split before = {}, after = {};
};

void PrintTo(const Circle& each, std::ostream* out) {
  *out << each.name;
}

std::vector<Circle> circles() {
  config::GptSpec untied = small_gpt();
  untied.tied_head = false;
  config::LlamaSpec llama = vector_llama();
  llama.grain = "block";
  const config::VitSpec vit{
      .image_size = 8, .patch = 4, .blocks = 2, .width = 16, .heads = 2, .channels = 1};
  const config::ResnetSpec resnet{.image_size = 8, .channels = 1, .classes = 3, .width = 4};
  return {{.name = "gpt", .model = small_gpt()},
          {.name = "gpt_untied", .model = untied},
          {.name = "gpt_from_one_stage_to_three", .model = small_gpt(), .after = {.cut = {1, 4}}},
          {.name = "gpt_from_two_stages", .model = small_gpt(), .before = {.cut = {3}}},
          {.name = "gpt_bfloat16_weights",
           .model = small_gpt(),
           .precision = "bfloat16_weights",
           .after = {.cut = {2}}},
          {.name = "gpt_two_replicas", .model = small_gpt(), .after = {.replicas = 2}},
          {.name = "llama", .model = llama},
          {.name = "vit", .model = vit},
          {.name = "resnet", .model = resnet},
          {.name = "mlp", .model = small_mlp(), .after = {.cut = {2}}}};
}

class Exported : public testing::TestWithParam<Circle> {};

TEST_P(Exported, WeightsAreBegunWithAgain) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(GetParam().model);
  job.train.precision = GetParam().precision;
  const Trained trained = train_and_export(job, folder, GetParam().before);

  const RunSummary begun = run_unchanged(job, trained.weights, GetParam().after);

  EXPECT_EQ(begun.parameters_digest, trained.summary.parameters_digest);
}

INSTANTIATE_TEST_SUITE_P(Models, Exported, testing::ValuesIn(circles()),
                         [](const auto& each) { return each.param.name; });

at::Tensor positions_in(const fs::path& weights) {
  const std::string name = "transformer.wpe.weight";
  const checkpoint::TensorSet set = checkpoint::find_tensors(weights);
  const checkpoint::Entry& entry = set.tensors.at(name);
  at::Tensor values = at::empty(entry.sizes, at::kFloat);
  checkpoint::read_tensor(set.folder, name, entry,
                          {static_cast<std::byte*>(values.mutable_data_ptr()), values.nbytes()});
  return values;
}

TEST(Weights, OfBatchNormsBringTheirStatistics) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(small_mlp());
  const Trained trained = train_and_export(job, folder);
  const checkpoint::TensorSet set = checkpoint::find_tensors(trained.weights);
  int statistics = 0;
  for (const auto& [name, entry] : set.tensors)
    statistics += static_cast<int>(name.find("mean") != std::string::npos);
  EXPECT_EQ(statistics, 3);
}

TEST(Weights, GiveTheSameRunWhateverTheSplit) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(small_gpt());
  job.weights = train_and_export(job, folder).weights.string();
  const RunSummary one = run_small(job, {}), three = run_small(job, {.cut = {2, 4}});
  EXPECT_EQ(one.losses_digest, three.losses_digest);
  EXPECT_EQ(one.parameters_digest, three.parameters_digest);
  job.weights.clear();
  EXPECT_NE(one.losses_digest, run_small(job, {}).losses_digest);
}

TEST(Weights, OfAShorterContextKeepTheirPositions) {
  const TemporaryFolder folder, second;
  const Trained origin = train_and_export(small_job(small_gpt()), folder);
  config::GptSpec shorter = small_gpt();
  shorter.positions = shorter.context;
  shorter.context = 8;
  config::JobSpec job = small_job(shorter);
  job.weights = origin.weights.string();
  job.train.optimizer.weight_decay = 0;  // else it changes rows without a gradient
  const at::Tensor before = positions_in(origin.weights),
                   after = positions_in(train_and_export(job, second).weights);
  ASSERT_EQ(after.sizes(), before.sizes());
  EXPECT_FALSE(after.slice(0, 0, 8).equal(before.slice(0, 0, 8)));
  EXPECT_TRUE(after.slice(0, 8).equal(before.slice(0, 8)));

  job.model = small_gpt();
  std::get<config::GptSpec>(job.model).context = 8;
  EXPECT_THAT(input_error([&] { run_small(job, {}); }),
              HasSubstr(concat("tensor 'transformer.wpe.weight' is F32 [", before.size(0),
                               ", 32], this job's embedding/position.weight is [8, 32]: say "
                               "model.positions: ",
                               before.size(0), " or name other weights")));
}

TEST(Weights, MayBeOfAnotherTypeAndOfALongerContext) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(small_gpt());
  const Trained trained = train_and_export(job, folder, {}, at::kBFloat16);
  config::GptSpec shorter = small_gpt();
  shorter.positions = shorter.context;
  shorter.context = 8;
  const std::vector<std::int64_t> tokens{1, 2, 3, 4};
  const at::Tensor whole =
      LanguageModel::of_checkpoint(model::make_model(job.model), trained.checkpoint).next(tokens);

  const at::Tensor rounded =
      LanguageModel::of_weights(model::make_model(shorter), shorter, trained.weights).next(tokens);

  const double distance = (whole - rounded).abs().max().item<double>();
  EXPECT_LT(distance, 0.05);
  EXPECT_GT(distance, 0);
}

TEST(Weights, OfAnotherModelAreRefusedOnEveryRank) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(small_gpt());
  const Trained trained = train_and_export(job, folder);
  config::GptSpec wider = small_gpt(), longer = small_gpt(), shorter = small_gpt();
  wider.width = 64;
  longer.blocks = 3;
  shorter.blocks = 1;
  const Split two{.cut = {2}};
  EXPECT_THAT(
      input_error([&] { run_unchanged(small_job(wider), trained.weights, two); }),
      HasSubstr("weights.safetensors: tensor 'transformer.wte.weight' is F32 [40, 32], this "
                "job's embedding/token.weight is [40, 64]"));
  EXPECT_THAT(input_error([&] { run_unchanged(small_job(longer), trained.weights, two); }),
              HasSubstr("has no tensor 'transformer.h.2."));
  EXPECT_THAT(input_error([&] { run_unchanged(small_job(shorter), trained.weights, two); }),
              HasSubstr("has 'transformer.h.1.attn.c_attn.bias' and 11 more tensors that this "
                        "job's model does not have"));
}

TEST(Weights, OfAnotherModelAreRefusedBeforeAnythingIsMeasured) {
  for (const std::string grain : {"block", "half_block", "fine"}) {
    config::GptSpec spec = small_gpt();
    spec.grain = grain;
    config::JobSpec job = small_job(spec);
    const TemporaryFolder out;
    job.weights = train_and_export(job, out).weights.string();
    EXPECT_NO_THROW(require_weights(model::make_model(job.model), job));
    spec.blocks = 3;
    job.model = spec;
    EXPECT_THAT(input_error([&] { require_weights(model::make_model(job.model), job); }),
                HasSubstr("has no tensor 'transformer.h.2."))
        << grain;
    spec.blocks = 1;
    job.model = spec;
    EXPECT_THAT(input_error([&] { require_weights(model::make_model(job.model), job); }),
                HasSubstr("11 more tensors that this job's model does not have"))
        << grain;
  }
}

TEST(Weights, AreNotWrittenOverAFile) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(small_gpt());
  const Trained trained = train_and_export(job, folder);
  EXPECT_THROW(export_weights(trained.checkpoint, job.model, at::kFloat, trained.weights), Error);
  int asked = 0;
  EXPECT_THROW(export_weights(trained.checkpoint, job.model, at::kFloat,
                              trained.weights.string() + ".stopped", [&] { return ++asked == 3; }),
               Interrupted);
}

TEST(LanguageModel, SeesAsManyTokensAsItsContextHas) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(small_gpt());
  const Trained trained = train_and_export(job, folder);
  const LanguageModel model =
      LanguageModel::of_checkpoint(model::make_model(job.model), trained.checkpoint);
  std::vector<std::int64_t> tokens(20);
  std::iota(tokens.begin(), tokens.end(), 0);

  EXPECT_TRUE(at::equal(model.next(tokens), model.next(std::span(tokens).last(16))));
  EXPECT_FALSE(at::equal(model.next(tokens), model.next(std::span(tokens).last(15))));
}

TEST(LanguageModel, IsOfTokens) {
  const config::MlpSpec mlp = small_mlp();
  EXPECT_THAT(input_error([&] { LanguageModel::of_weights(model::make_model(mlp), mlp, "x"); }),
              HasSubstr("is not a language model"));
}

TEST(Draw, TakesTheMostLikelyTokenWithoutTemperature) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  EXPECT_EQ(draw(at::tensor({1.0, 3.0, 2.0}), {.temperature = 0}, generator), 1);
  EXPECT_EQ(draw(at::tensor({1.0, 3.0, 2.0}), {.temperature = 1e-320}, generator), 1);
}

TEST(Draw, FollowsTheProbabilities) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  const at::Tensor logits = at::log(at::tensor({0.1, 0.6, 0.3}));
  std::vector<int> counts(3);
  for (int i = 0; i < 2000; ++i) ++counts[static_cast<std::size_t>(draw(logits, {}, generator))];
  // Five standard deviations of a binomial distribution of 2000 are at most 110.
  EXPECT_NEAR(counts[0], 200, 110);
  EXPECT_NEAR(counts[1], 1200, 110);
  EXPECT_NEAR(counts[2], 600, 110);
}

TEST(Draw, StaysAmongTheMostLikely) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  const at::Tensor logits = at::tensor({0.0, 0.2, 0.1, 0.3});
  for (int i = 0; i < 200; ++i)
    EXPECT_THAT(draw(logits, {.temperature = 5, .top_k = 2}, generator), testing::AnyOf(1, 3));
}

}  // namespace
}  // namespace trireme::runtime
