// The same bits for every split: every run is compared with one stage that keeps everything.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "state/stage.h"
#include "support/input_error.h"
#include "update/reducer.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/comm/local.h"
#include "trireme/core/text.h"
#include "trireme/profile/measure.h"
#include "trireme/runtime/position.h"
#include "trireme/simulate/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::runtime {
namespace {

using support::input_error;
using testing::HasSubstr;

void expect_same_run(const RunSummary& run, const RunSummary& reference) {
  EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
  EXPECT_EQ(run.losses_digest, reference.losses_digest);
  EXPECT_EQ(run.validation_loss, reference.validation_loss);
}

/// gpt with 2 blocks has 6 layers: embedding, 2 x (attention, mlp), head.
const std::vector<std::vector<int>> kCuts = {{},     {3},    {1},       {5},
                                             {2, 4}, {1, 2}, {1, 3, 5}, {1, 2, 3, 4, 5}};

class EverySplit : public testing::TestWithParam<std::tuple<std::vector<int>, std::string, bool>> {
};

TEST_P(EverySplit, GivesTheBitsOfOneStage) {
  const auto& [cut, schedule, recompute] = GetParam();
  static const RunSummary reference = run_small(small_job(small_gpt()), {});

  const RunSummary run =
      run_small(small_job(small_gpt()), {.cut = cut, .schedule = schedule, .recompute = recompute});

  expect_same_run(run, reference);
}

INSTANTIATE_TEST_SUITE_P(Gpt, EverySplit,
                         testing::Combine(testing::ValuesIn(kCuts),
                                          testing::Values("1f1b", "gpipe"), testing::Bool()));

/// Ranks with several stages that do not follow one another.
struct Shared {
  std::vector<int> cut, ranks;
};
const std::vector<Shared> kShared = {{{2, 4}, {0, 1, 0}},  // ends and tied weights on one rank
                                     {{1, 3}, {1, 0, 1}},  // the input on rank 1
                                     {{1, 3, 5}, {0, 1, 0, 1}},  // two ranks that share three cuts
                                     {{1, 2, 4, 5}, {0, 1, 0, 2, 0}},
                                     {{1, 3, 5}, {0, 1, 2, 0}}};

class SharedRanks : public testing::TestWithParam<std::tuple<Shared, std::string, bool, bool>> {};

TEST_P(SharedRanks, GiveTheBitsOfOneStage) {
  const auto& [shared, schedule, recompute, replicas] = GetParam();
  static const RunSummary reference = run_small(small_job(small_gpt()), {});
  static const RunSummary of_two = run_small(small_job(small_gpt()), {.replicas = 2});

  const RunSummary run = run_small(small_job(small_gpt()), {.cut = shared.cut,
                                                            .schedule = schedule,
                                                            .recompute = recompute,
                                                            .replicas = replicas ? 2 : 1,
                                                            .ranks = shared.ranks});

  expect_same_run(run, replicas ? of_two : reference);
}

// Rank 0 sends all its outputs before it receives the first of rank 1, whose shape is not known
// yet.
TEST(OrdersOfSharedRanks, DoNotWaitForOneAnotherAsLongAsStreamsHaveRoom) {
  const RunSummary run =
      run_small(small_job(small_gpt()), {.cut = {2, 4},
                                         .schedule = "gpipe",
                                         .ranks = {0, 1, 0},
                                         .order = {"F0*4 F2*4 B2*4 B0*4", "F1*4 B1*4"}});

  expect_same_run(run, run_small(small_job(small_gpt()), {}));
}

INSTANTIATE_TEST_SUITE_P(Gpt, SharedRanks,
                         testing::Combine(testing::ValuesIn(kShared),
                                          testing::Values("1f1b", "gpipe"), testing::Bool(),
                                          testing::Bool()));

// Far more in flight than in 1F1B: two gradients wait before their rank receives the first.
TEST(InFlight, MayBeWhatTheValidatorAllows) {
  config::JobSpec job = small_job(small_gpt());
  job.train.batch = 16;
  const model::ChainModel model = model::make_model(job.model);
  chain::Chain chain;
  chain.layers.resize(static_cast<std::size_t>(model.length()));
  const chain::Platform platform = chain::uniform_platform(2, Bytes(0));
  const RunSummary reference = run_small(job, {});
  int allowed = 0, refused = 0;
  for (int first = 1; first <= 8; ++first) {
    for (int second = 1; second <= std::min(first, 3); ++second) {
      const Split split{.cut = {3}, .in_flight = {first, second}};
      const program::Program program = plan::compile(plan_of(model, job, split));
      const simulate::Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
      if (simulate::validate(program, setting)) {
        ++refused;
        continue;
      }
      ++allowed;
      expect_same_run(run_small(job, split), reference);
    }
  }
  EXPECT_GT(allowed, 8);
  EXPECT_GT(refused, 2);
}

TEST(MixedPrograms, GiveTheBitsOfOneStage) {
  const RunSummary reference = run_small(small_job(small_gpt()), {});

  for (const std::vector<int>& cut : {std::vector<int>{}, {3}, {1, 4}}) {
    for (const char* const schedule : {"1f1b", "gpipe"}) {
      for (const bool recompute : {false, true})
        expect_same_run(
            run_small(small_job(small_gpt()),
                      {.cut = cut, .schedule = schedule, .recompute = recompute, .mixed = true}),
            reference);
    }
  }
}

TEST(Replicas, GiveTheBitsOfReplicasOnOneStage) {
  const RunSummary reference = run_small(small_job(small_gpt()), {.replicas = 2});

  for (const std::vector<int>& cut : {std::vector{3}, {1, 4}}) {
    for (const bool recompute : {false, true}) {
      expect_same_run(
          run_small(small_job(small_gpt()), {.cut = cut, .recompute = recompute, .replicas = 2}),
          reference);
    }
  }
}

TEST(Replicas, SeeTheLossesOfOneReplicaInTheFirstStep) {
  config::JobSpec job = small_job(small_gpt());
  job.train.steps = 1;

  const RunSummary one = run_small(job, {});
  const RunSummary two = run_small(job, {.replicas = 2});

  EXPECT_EQ(one.losses_digest, two.losses_digest);
}

TEST(UntiedHead, GivesTheBitsOfOneStage) {
  config::GptSpec gpt = small_gpt();
  gpt.tied_head = false;
  const RunSummary reference = run_small(small_job(gpt), {});

  expect_same_run(run_small(small_job(gpt), {.cut = {2, 4}}), reference);
}

TEST(Sgd, GivesTheBitsOfOneStage) {
  config::JobSpec job = small_job(small_gpt());
  job.train.optimizer.kind = "sgd";
  const RunSummary reference = run_small(job, {});

  expect_same_run(run_small(job, {.cut = {2, 4}, .recompute = true}), reference);
}

TEST(Bfloat16, RecomputesToTheSameBits) {
  for (const char* precision : {"bfloat16", "bfloat16_weights"}) {
    SCOPED_TRACE(precision);
    config::JobSpec job = small_job(small_gpt());
    job.train.precision = precision;
    const RunSummary reference = run_small(job, {});

    expect_same_run(run_small(job, {.cut = {}, .recompute = true}), reference);
    expect_same_run(run_small(job, {.cut = {3}, .recompute = true}), reference);
  }
}

/// Two uses of one master, in one stage and in two.
TEST(Bfloat16Weights, TieAsOneWeight) {
  config::GptSpec tied = small_gpt();
  tied.tied_head = true;
  config::JobSpec job = small_job(tied);
  job.train.precision = "bfloat16_weights";
  const RunSummary reference = run_small(job, {});

  expect_same_run(run_small(job, {.cut = {2, 4}}), reference);
  run_small(job, {}, [](int, Trainer& trainer) {
    const std::vector<StageParameter>& uses = trainer.stage().parameters();
    const auto token = std::find_if(uses.begin(), uses.end(),
                                    [](const StageParameter& use) { return !use.tie.empty(); });
    ASSERT_NE(token, uses.end());
    EXPECT_TRUE(uses.back().value.is_alias_of(token->value));
    EXPECT_TRUE(uses.back().weight.is_alias_of(token->weight));
  });
}

/// A product with a weight that is said to be tied, but drawn for each layer.
class Unlike final : public model::Layer {
 public:
  explicit Unlike(const model::Seeds& seeds) {
    weight_ = add_parameter("weight", at::empty({12, 12}).normal_(0, 0.1, seeds.of_layer()), "one");
  }
  model::Values forward(const model::Values& input, const model::Context& context) override {
    const at::Tensor y = at::mm(input[0], weight_);
    return {context.target.empty() ? y : at::cross_entropy_loss(y, context.target[0])};
  }

 private:
  at::Tensor weight_;
};

TEST(TiedWeights, ThatDoNotBeginEqualAreRefusedForEveryCut) {
  model::ChainModel model{.name = "unlike", .layers = {}, .input = model::InputKind::kVectors};
  model.input_size = model.classes = 12;
  for (const char* name : {"first", "second"})
    model.layers.push_back({.name = name, .work = 1, .build = [](const model::Seeds& seeds) {
                              return std::make_unique<Unlike>(seeds);
                            }});
  EXPECT_THAT(input_error([&] {
                Stage(model, {1, 2}, 1);
              }),
              HasSubstr("the tied weight 'one' has other initial values in second/weight than in "
                        "first/weight"));
  comm::run_local(2, {.timeout = Seconds(30), .stop_requested = {}}, [&](comm::Channel& channel) {
    Stage stage(model, {channel.rank() + 1}, 1);
    EXPECT_THAT(input_error([&] { Reducer(channel, Position::of(channel.rank(), 1, 2), stage); }),
                HasSubstr("the tied weight 'one' has other initial values in layer 2"));
    channel.close();
  });
}

TEST(Bfloat16Weights, AreTheRoundingsOfFloat32Masters) {
  config::JobSpec job = small_job(small_mlp());
  job.train.precision = "bfloat16_weights";
  run_small(job, {}, [](int, Trainer& trainer) {
    bool has_more_digits = false;
    for (const StageParameter& parameter : trainer.stage().parameters()) {
      const bool is_of_norm = parameter.name.find("norm") != std::string::npos;
      EXPECT_EQ(parameter.weight.scalar_type(), is_of_norm ? at::kFloat : at::kBFloat16)
          << parameter.name;
      EXPECT_EQ(parameter.value.scalar_type(), at::kFloat);
      EXPECT_EQ(parameter.gradient.scalar_type(), at::kFloat);
      const at::Tensor rounded = parameter.value.to(parameter.weight.scalar_type());
      EXPECT_TRUE(at::equal(parameter.weight.detach(), rounded)) << parameter.name;
      has_more_digits = has_more_digits || !at::equal(rounded.to(at::kFloat), parameter.value);
    }
    EXPECT_TRUE(has_more_digits);
  });
}

/// Steps smaller than half a unit in the last place of a bfloat16 weight are not lost.
TEST(Bfloat16Weights, LearnAsAutocastDoes) {
  config::JobSpec job = small_job(small_gpt());
  std::get<config::GptSpec>(job.model).dropout = 0;
  job.train.steps = 20;
  job.train.optimizer.learning_rate = 1e-3;
  const double exact = run_small(job, {}).train_loss;
  for (const char* precision : {"bfloat16", "bfloat16_weights"}) {
    job.train.precision = precision;
    EXPECT_NEAR(run_small(job, {}).train_loss, exact, 0.01 * exact) << precision;
  }
}

/// Tape bytes of all layers. (A run's peak includes the scratch memory of this processor's
/// kernels.)
Bytes tape_bytes(const config::JobSpec& job) {
  Bytes sum;
  const chain::Chain chain = profile::measure(model::make_model(job.model), job,
                                              {.least_time = Seconds(0), .least_runs = 1});
  for (const chain::LayerCost& layer : chain.layers) sum += layer.tape;
  return sum;
}

TEST(LeanTapes, GiveTheBitsOfFullOnesInFewerBytes) {
  config::GptSpec gpt = small_gpt();
  gpt.tied_head = true;
  const config::VitSpec vit{
      .image_size = 16, .patch = 4, .blocks = 2, .width = 48, .heads = 3, .dropout = 0.1};
  const config::LlamaSpec llama{.blocks = 2, .width = 32, .heads = 4, .kv_heads = 2, .context = 16};
  for (const config::ModelSpec& spec : {config::ModelSpec(gpt), {vit}, {llama}}) {
    for (const char* precision : {"float32", "bfloat16", "bfloat16_weights"}) {
      SCOPED_TRACE(concat(spec.index(), ' ', precision));
      config::JobSpec job = small_job(spec);
      job.train.precision = precision;
      job.memory.tapes = "full";
      const RunSummary full = run_small(job, {});
      const Bytes of_full = tape_bytes(job);
      job.memory.tapes = "lean";
      const RunSummary lean = run_small(job, {});

      EXPECT_LT(tape_bytes(job), of_full);
      expect_same_run(lean, full);
      expect_same_run(run_small(job, {.cut = {3}, .recompute = true}), full);
    }
  }
}

TEST(Dropout, ChangesTheRun) {
  config::GptSpec without = small_gpt();
  without.dropout = 0;

  EXPECT_NE(run_small(small_job(without), {}).losses_digest,
            run_small(small_job(small_gpt()), {}).losses_digest);
}

TEST(Seed, ChangesTheRun) {
  config::JobSpec other = small_job(small_gpt());
  other.train.seed = 2;

  EXPECT_NE(run_small(other, {}).parameters_digest,
            run_small(small_job(small_gpt()), {}).parameters_digest);
}

std::vector<at::Tensor> buffers_after(const config::JobSpec& job, const Split& split) {
  std::map<int, std::vector<at::Tensor>> by_layer;
  run_small(job, split, [&](int, Trainer& trainer) {
    for (const int layer : trainer.stage().layers()) {
      for (const model::Buffer& buffer : trainer.stage().layer(layer).buffers()) {
        by_layer[layer].push_back(buffer.value.clone());
      }
    }
  });
  std::vector<at::Tensor> all;
  for (const auto& [layer, buffers] : by_layer)
    all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

TEST(BatchNorm, StatisticsMoveOnceUnderRecompute) {
  const config::JobSpec job = small_job(small_mlp());
  const std::vector<at::Tensor> kept = buffers_after(job, {});

  for (const Split& split :
       {Split{.cut = {}, .recompute = true}, Split{.cut = {2}, .recompute = true},
        Split{.cut = {1, 3}, .schedule = "gpipe", .recompute = true}}) {
    const std::vector<at::Tensor> recomputed = buffers_after(job, split);
    ASSERT_EQ(recomputed.size(), kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], recomputed[i]));
  }
  EXPECT_FALSE(at::equal(kept[0], at::zeros_like(kept[0])));
}

TEST(BatchNorm, ParametersAreTheSameForEverySplit) {
  const RunSummary reference = run_small(small_job(small_mlp()), {});

  expect_same_run(run_small(small_job(small_mlp()), {.cut = {1, 3}, .recompute = true}), reference);
}

}  // namespace
}  // namespace trireme::runtime
