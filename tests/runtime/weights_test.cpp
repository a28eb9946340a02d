// Weights from and for other programs: compared with Hugging Face's transformers, and a round trip.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/weights.h"

#include "made_up.h"
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/checkpoint/tensor_set.h"
#include "trireme/config/huggingface.h"
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

/// The model of a config.json, with the sizes of vector_llama() but one head of keys and values.
config::ModelSpec family(const std::string& type, const std::string& words) {
  return config::read_huggingface(io::parse(concat(R"({"model_type": ")", type, R"(",
      "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
      "intermediate_size": 24, "max_position_embeddings": 32, "vocab_size": 16, )",
                                                   words, "}"),
                                            "w/config.json"));
}

/// Printed by huggingface_vectors.py, too: one model of each further family of decoders.
std::vector<Vector> families() {
  return {
      {"qwen3",
       family("qwen3", R"("head_dim": 12, "rope_theta": 200.0)"),
       {0.0465, 1.02301, 0.36885, -0.87325, -0.7234, 0.57954, 0.9587, -0.1903, -1.03596, -0.23031,
        0.94245, 0.61296, -0.69359, -0.89456, 0.33039, 1.0287}},
      {"olmo2",
       family("olmo2", R"("rope_theta": 100.0)"),
       {0.29698, 1.74886, 0.41307, -1.58115, -1.05504, 1.1528, 1.52308, -0.53441, -1.74006,
        -0.17207, 1.6702, 0.85019, -1.32501, -1.38815, 0.76141, 1.69729}},
      {"granite",
       family(
           "granite",
           R"("embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.2, "logits_scaling": 1.5, "rope_theta": 100.0)"),
       {0.5358, 1.65965, 0.13803, -1.60361, -0.78912, 1.28322, 1.31012, -0.7513, -1.61515, 0.09553,
        1.65394, 0.57598, -1.42009, -1.15255, 0.95214, 1.53913}},
      {"smollm3",
       family(
           "smollm3",
           R"("no_rope_layers": [1, 0], "use_sliding_window": true, "sliding_window": 5, "tie_word_embeddings": false, "rope_theta": 100.0)"),
       {0.73934, 2.02287, 0.08196, -1.98959, -0.88976, 1.62834, 1.55088, -0.99867, -1.95635,
        0.20437, 2.03932, 0.62361, -1.78613, -1.3488, 1.2385, 1.85165}},
      {"phi3",
       family("phi3", R"("partial_rotary_factor": 0.5, "sliding_window": 5, "rope_theta": 100.0)"),
       {-0.3767, 0.16734, 0.44465, 0.01319, -0.43929, -0.19154, 0.36153, 0.33833, -0.22416,
        -0.42934, 0.04985, 0.44958, 0.13269, -0.3957, -0.29335, 0.2766}},
      {"gemma",
       family("gemma", R"("head_dim": 12, "rope_theta": 100.0)"),
       {2.12155, 1.03157, -1.70273, -1.72289, 1.00322, 2.13021, -0.13833, -2.18637, -0.74936,
        1.88212, 1.51352, -1.26762, -2.02819, 0.44416, 2.20852, 0.45252}},
      {"gemma2",
       family(
           "gemma2",
           R"("head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 5, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 1.5, "rope_theta": 100.0)"),
       {1.44815, 1.04017, -1.39799, -1.36665, 1.17302, 1.44169, -0.37379, -1.45241, -0.78768,
        1.42429, 1.30209, -1.28828, -1.4274, 0.73772, 1.45271, 0.43808}},
      {"gemma3_text",
       family(
           "gemma3_text",
           R"("head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 5, "sliding_window_pattern": 2, "rope_theta": 100.0, "rope_local_base_freq": 20.0)"),
       {2.69362, 1.29326, -2.16854, -2.1737, 1.286, 2.69583, -0.19146, -2.77357, -0.93463, 2.3941,
        1.90666, -1.61997, -2.56439, 0.57881, 2.79939, 0.55777}}};
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
INSTANTIATE_TEST_SUITE_P(Families, OfHuggingFace, testing::ValuesIn(families()),
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
          {.name = "gemma2", .model = family("gemma2", R"("head_dim": 12, "sliding_window": 5)")},
          {.name = "phi3_from_two_stages",
           .model = family("phi3", R"("sliding_window": 5)"),
           .before = {.cut = {3}}},
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
