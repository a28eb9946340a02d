// Training on the GPU: the same bits whatever the plan, bytes as predicted, budgets kept. Kernels
// are deterministic.
// SPDX-License-Identifier: Apache-2.0
#include "training.h"

#include "gpu.h"
#include "state/stage.h"
#include "support/temporary_folder.h"

#include "trireme/core/text.h"
#include "trireme/model/precision.h"
#include "trireme/partition/planner.h"
#include "trireme/profile/measure.h"
#include "trireme/profile/tied_weights.h"
#include "trireme/runtime/warm_up.h"
#include "trireme/runtime/weights.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <iostream>
#include <optional>

namespace trireme::device {
namespace {

using runtime::plan_of;
using runtime::small_job;

class GpuTraining : public Gpu {
 protected:
  void SetUp() override {
    use_deterministic_kernels();
    Gpu::SetUp();
  }

  /// With the full context activations take some hundred MiB: more than the allocator's rounding,
  /// for a test that limits it to a budget.
  static constexpr int kWholeContext = 512;
  config::GptSpec gpt() const {
    return {.blocks = 6,
            .width = is_emulated() ? 64 : 512,
            .heads = 8,
            .context = is_emulated() ? kWholeContext / 2 : kWholeContext,
            .vocabulary = is_emulated() ? 256 : 1024,
            .dropout = 0.1,
            .tied_head = true};
  }
  config::JobSpec gpt_job(const std::string& precision) const {
    config::JobSpec job = small_job(gpt());
    job.device = "cuda";
    job.train.steps = is_emulated() ? 2 : 3;
    job.train.batch = is_emulated() ? 4 : 16;
    job.train.micro_batch = job.train.batch / 2;
    job.train.precision = precision;
    job.pipeline.timeout = Seconds(120);
    return job;
  }

  GpuOutcome train(const config::JobSpec& job, const plan::Plan& plan, Bytes budget = Bytes(0),
                   const simulate::PlacedCopies& copies = {}) {
    return train_on(cuda(), job, model::make_model(job.model), {plan, budget, copies});
  }
  plan::Plan keep_all(const config::JobSpec& job, const runtime::Split& split = {}) const {
    return plan_of(model::make_model(job.model), job, split);
  }
  /// The chain, measured on the GPU.
  chain::Chain costs(const config::JobSpec& job) {
    runtime::warm_up(cuda());
    const auto memory = cuda().open_memory("profile");
    return profile::measure(model::make_model(job.model), job,
                            {.place = cuda(), .memory = memory.get()});
  }
};

void expect_same(const GpuOutcome& expected, const GpuOutcome& found) {
  EXPECT_EQ(found.summary.losses_digest, expected.summary.losses_digest);
  EXPECT_EQ(found.summary.parameters_digest, expected.summary.parameters_digest);
}

TEST_F(GpuTraining, InitialValuesAreTheCpusBits) {
  const config::JobSpec job = gpt_job("float32");
  const model::ChainModel model = model::make_model(job.model);
  std::vector<int> layers;
  for (int i = 1; i <= model.length(); ++i) layers.push_back(i);
  runtime::Stage here(model, layers, job.train.seed);
  runtime::Stage there(model, layers, job.train.seed, model::Precision::kFloat32, on_gpu());
  for (std::size_t i = 0; i < here.parameters().size(); ++i) {
    EXPECT_TRUE(there.parameters()[i].value.is_cuda());
    EXPECT_TRUE(there.parameters()[i].gradient.is_cuda());
    EXPECT_TRUE(at::equal(there.parameters()[i].value.cpu(), here.parameters()[i].value));
  }
}

TEST_F(GpuTraining, TheFirstLossIsTheCpusToRounding) {
  for (const std::string data : {"text", "documents", "isolated documents"}) {
    for (const std::string precision : {"float32", "bfloat16_weights"}) {
      SCOPED_TRACE(data + ", " + precision);
      config::JobSpec job = gpt_job(precision);
      job.data.kind = data == "text" ? "text" : "documents";
      job.data.isolated = data == "isolated documents";
      std::get<config::GptSpec>(job.model).dropout = 0;  // its draws differ
      job.train.steps = 1;
      const GpuOutcome on_gpu = train(job, keep_all(job));
      job.device = "cpu";
      const record::RunSummary on_cpu = runtime::run_small(job, {});
      EXPECT_NEAR(on_gpu.summary.train_loss, on_cpu.train_loss,
                  precision == "float32" ? 1e-3 : 1e-2);
    }
  }
}

TEST_F(GpuTraining, ARunIsRepeatable) {
  const config::JobSpec job = gpt_job("bfloat16");
  expect_same(train(job, keep_all(job)), train(job, keep_all(job)));
}

TEST_F(GpuTraining, RecomputationGivesTheSameBits) {
  for (const char* precision : {"float32", "bfloat16", "bfloat16_weights"}) {
    const config::JobSpec job = gpt_job(precision);
    expect_same(train(job, keep_all(job)), train(job, keep_all(job, {.recompute = true})));
  }
}

// Late kernels and late copies (the emulated GPU has both) reveal a missing wait.
TEST_F(GpuTraining, CopiesOfOptimizerStateGiveTheSameBits) {
  for (const bool to_file : {false, true}) {
    const config::JobSpec job = gpt_job(to_file ? "float32" : "bfloat16_weights");
    const GpuOutcome held = train(job, keep_all(job));
    const plan::Plan plan = keep_all(job, {.offloaded = Bytes(std::int64_t{1} << 40)});
    const GpuOutcome moved =
        train_on(cuda(), job, model::make_model(job.model), {.plan = plan, .to_file = to_file});
    expect_same(held, moved);
    EXPECT_GT(moved.summary.ranks[0].offloaded_optimizer, Bytes(0));
    EXPECT_LT(moved.summary.ranks[0].static_bytes, held.summary.ranks[0].static_bytes);
  }
}

TEST_F(GpuTraining, WeightsThatComeForEveryUseGiveTheSameBits) {
  for (const int lora_rank :
       {4, 0}) {  // 0: all of them are trained and streamed with their gradients
    SCOPED_TRACE(lora_rank);
    config::JobSpec job = gpt_job("bfloat16_weights");
    std::get<config::GptSpec>(job.model).lora_rank = lora_rank;
    job.train.clip_norm = 0.5;
    const GpuOutcome held = train(job, keep_all(job));
    for (const bool to_file : {false, true}) {
      const Bytes offloaded(to_file ? 0 : std::int64_t{1} << 40);
      const plan::Plan plan =
          keep_all(job, {.recompute = to_file, .offloaded = offloaded, .streams = true});
      const GpuOutcome streamed =
          train_on(cuda(), job, model::make_model(job.model), {.plan = plan, .to_file = to_file});
      expect_same(held, streamed);
      EXPECT_GT(streamed.summary.ranks[0].offloaded_weights, Bytes(0));
      EXPECT_LT(streamed.summary.ranks[0].static_bytes, held.summary.ranks[0].static_bytes);
    }
  }
}

TEST_F(GpuTraining, ReplicasThatDivideTheOptimizerHaveTheBitsOfThoseThatDoNot) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    SCOPED_TRACE(precision);
    config::JobSpec job = gpt_job(precision);
    job.train.batch = 4;
    job.train.micro_batch = 1;
    job.train.clip_norm = 0.5;
    const int in_turn = job.train.precision == "float32" ? 2 : 4;
    for (const int replicas : is_emulated() ? std::vector{in_turn} : std::vector{2, 4}) {
      job.pipeline.replicas = replicas;
      const GpuOutcome whole = train(job, keep_all(job, {.replicas = replicas}));
      for (const bool streams : {false, true}) {
        const Bytes offloaded(streams ? 1 << 18 : 0);
        const GpuOutcome divided = train(job, keep_all(job, {.replicas = replicas,
                                                             .offloaded = offloaded,
                                                             .streams = streams,
                                                             .shards = true}));
        expect_same(whole, divided);
        EXPECT_LT(divided.summary.ranks[0].static_bytes, whole.summary.ranks[0].static_bytes);
      }
    }
    job.pipeline.replicas = 2;
    expect_same(train(job, keep_all(job, {.cut = {4}, .replicas = 2})),
                train(job, keep_all(job, {.cut = {4}, .replicas = 2, .shards = true})));
  }
}

TEST_F(GpuTraining, OptimizerStateIsSavedAndTakenUpFromWhereItIs) {
  const config::JobSpec job = gpt_job("bfloat16_weights");
  const model::ChainModel model = model::make_model(job.model);
  const plan::Plan held = keep_all(job);
  const plan::Plan moved = keep_all(job, {.offloaded = Bytes(std::int64_t{1} << 40)});
  const support::TemporaryFolder folder;
  runtime::Checkpointing saved;
  saved.folder = folder.path();
  saved.every = 1;
  saved.keep = 3;
  saved.job = "train: {}\n";
  const GpuOutcome whole = train_on(cuda(), job, model, {.plan = moved, .checkpoints = saved});
  runtime::Checkpointing resumed;
  resumed.resume = folder / "step-1";
  for (const plan::Plan& plan : {held, moved})
    expect_same(whole, train_on(cuda(), job, model, {.plan = plan, .checkpoints = resumed}));
}

TEST_F(GpuTraining, StagesAsThreadsOnOneGpuGiveTheSameBits) {
  const config::JobSpec job = gpt_job("float32");
  const GpuOutcome alone = train(job, keep_all(job));
  expect_same(alone, train(job, keep_all(job, {.cut = {4}})));
  expect_same(alone, train(job, keep_all(job, {.cut = {3, 5}, .recompute = true})));
}

TEST_F(GpuTraining, ACheckpointIsGoneOnFromWithTheSameBits) {
  const support::TemporaryFolder folder;
  const config::JobSpec job = gpt_job("bfloat16_weights");
  const model::ChainModel model = model::make_model(job.model);
  GpuRun saving{keep_all(job), Bytes(0)}, resuming{keep_all(job, {.cut = {3}}), Bytes(0)};
  saving.checkpoints.folder = folder.path();
  saving.checkpoints.every = 1;
  saving.checkpoints.keep = job.train.steps;
  resuming.checkpoints.resume = folder / "step-1";

  const GpuOutcome expected = train_on(cuda(), job, model, saving);

  expect_same(expected, train_on(cuda(), job, model, resuming));
}

TEST_F(GpuTraining, BeginsWithWeights) {
  const support::TemporaryFolder folder;
  config::JobSpec job = gpt_job("bfloat16_weights");
  const model::ChainModel model = model::make_model(job.model);
  GpuRun saving{keep_all(job), Bytes(0)};
  saving.checkpoints.folder = folder.path();
  saving.checkpoints.every = 1;
  const GpuOutcome trained = train_on(cuda(), job, model, saving);
  job.weights = (folder / "weights.safetensors").string();
  runtime::export_weights(folder / concat("step-", job.train.steps), job.model, at::kFloat,
                          job.weights);

  job.train.optimizer.learning_rate = 0;
  const GpuOutcome begun = train_on(cuda(), job, model, {keep_all(job, {.cut = {3}}), Bytes(0)});

  EXPECT_EQ(begun.summary.parameters_digest, trained.summary.parameters_digest);
}

/// A job's planner question with the GPU's costs.
struct Planned {
  chain::Chain chain;
  chain::Platform platform;
  config::JobSpec job;
  model::ChainModel model;

  void open_offload_tier() {
    chain::RankSpec& rank = platform.ranks[0];
    rank.host = Bytes(std::int64_t{8} << 30);
    rank.out = rank.in = BytesPerSecond(20e9);
  }
  partition::Question question(const std::string& solver) const {
    partition::Question question;
    question.chain = chain;
    question.platform = platform;
    question.micro_batches = config::micro_batches(job);
    question.solver = solver;
    question.shared_bytes = [tied = profile::TiedWeights(model, job.train)](
                                const partition::LayerRuns& runs) { return tied.shared(runs); };
    return question;
  }
  std::optional<plan::Plan> plan(const std::string& solver) const {
    partition::Answer answer = partition::plan(question(solver));
    if (auto* plan = std::get_if<plan::Plan>(&answer)) return std::move(*plan);
    return std::nullopt;
  }
  simulate::PlacedCopies copies(const plan::Plan& plan) const {
    const partition::Question asked = question(plan.solver);
    return simulate::place_copies(plan::compile(plan, asked.chain),
                                  partition::setting_of(asked, plan),
                                  partition::simulated(asked, plan, simulate::Detail::kTimeline));
  }
};

void expect_as_predicted(Bytes found, Bytes predicted, const std::string& what) {
  const double share = found / predicted;
  std::cout << what << ": predicted " << to_text(predicted) << ", measured " << to_text(found)
            << "\n";
  EXPECT_LE(share, 1.02) << what;
  EXPECT_GE(share, 0.98) << what;
}

/// Budgets of 80, 60, 40 % of keep_all's activations, with solvers that copy and that do not.
TEST_F(GpuTraining, PlansWithinBudgetsGiveTheSameBitsWithThePredictedBytes) {
  const config::JobSpec job = gpt_job("bfloat16");
  const model::ChainModel model = model::make_model(job.model);
  Planned planned{costs(job), chain::uniform_platform(1, Bytes(0)), job, model};
  planned.open_offload_tier();
  const plan::Plan everything = keep_all(job);
  const Bytes all = planned.copies(everything).ranks[0].peak;
  const GpuOutcome expected = train(job, everything);
  expect_as_predicted(expected.summary.ranks.at(0).peak, all, "keep_all");
  const Bytes fixed = expected.summary.ranks.at(0).static_bytes;
  for (const char* solver : {"rotor", "pofo", "auto"}) {
    for (const int percent : {80, 60, 40}) {
      planned.platform.ranks[0].memory = fixed + (all - fixed) * percent / 100;
      const auto plan = planned.plan(solver);
      EXPECT_TRUE(plan || percent < 80) << solver;
      if (!plan) continue;
      const simulate::PlacedCopies copies = planned.copies(*plan);
      const GpuOutcome outcome = train(job, *plan, Bytes(0), copies);
      const std::string what = concat(solver, " at ", percent, " %");
      SCOPED_TRACE(what);
      expect_same(expected, outcome);
      expect_as_predicted(outcome.summary.ranks.at(0).peak, copies.ranks[0].peak, what);
      EXPECT_LE(copies.ranks[0].peak, planned.platform.ranks[0].memory);
      if (copies.ranks[0].offload_peak == Bytes(0)) continue;
      expect_same(expected,
                  train_on(cuda(), job, model, {*plan, Bytes(0), copies, /*to_file=*/true}));
    }
  }
}

TEST_F(GpuTraining, APlanForTheBudgetKeepsToItAndAnotherOneIsRefusedByTheAllocator) {
  config::JobSpec job = gpt_job("bfloat16");
  std::get<config::GptSpec>(job.model).context = kWholeContext;
  const model::ChainModel model = model::make_model(job.model);
  Planned planned{costs(job), chain::uniform_platform(1, Bytes(0)), job, model};
  const plan::Plan everything = keep_all(job);
  const Bytes budget = planned.copies(everything).ranks[0].peak * 3 / 4;
  {
    runtime::warm_up(cuda());
    planned.platform.ranks[0].memory = cuda().open_memory("look")->for_tensors(budget);
  }
  const auto plan = planned.plan("rotor");
  ASSERT_TRUE(plan);
  EXPECT_GE(train(job, *plan, budget).budget_left_by_allocator, Bytes(0));
  try {
    train(job, everything, budget);
    FAIL() << "keep_all does not fit";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(error.what_without_backtrace(), testing::HasSubstr("memory budget of"));
  }
}

/// How often the host has waited for an emulated GPU so far.
std::int64_t host_waits() {
  using Count = std::int64_t();
  return reinterpret_cast<Count*>(::dlsym(RTLD_DEFAULT, "emulated_gpu_host_waits"))();
}

/// The host waits twice: where the step's times begin, with nothing left to do, and where it ends.
TEST_F(GpuTraining, TheHostNeverWaitsForTheDeviceWithinAStep) {
  if (!is_emulated()) GTEST_SKIP() << "only an emulated GPU counts waits";
  config::JobSpec job = gpt_job("bfloat16");
  job.train.clip_norm = 1;
  const plan::Plan everything = keep_all(job), again = keep_all(job, {.recompute = true});
  Planned planned{costs(job), chain::uniform_platform(1, Bytes(0)), job,
                  model::make_model(job.model)};
  planned.open_offload_tier();
  planned.platform.ranks[0].memory = planned.copies(everything).ranks[0].peak * 2 / 3;
  const auto moved = planned.plan("offload");
  ASSERT_TRUE(moved);
  const simulate::PlacedCopies copies = planned.copies(*moved);
  ASSERT_GT(copies.ranks[0].offload_peak, Bytes(0));
  const auto waits_of = [&](int steps, const plan::Plan& plan,
                            const simulate::PlacedCopies& points) {
    job.train.steps = steps;
    const std::int64_t before = host_waits();
    train(job, plan, Bytes(0), points);
    return host_waits() - before;
  };
  const auto waits_of_a_step = [&](const plan::Plan& plan, const simulate::PlacedCopies& points) {
    return waits_of(2, plan, points) - waits_of(1, plan, points);
  };
  EXPECT_EQ(waits_of_a_step(everything, {}), 2);
  EXPECT_EQ(waits_of_a_step(again, {}), 2);
  // For copies in both directions before a step, when none are left, and after it; where their
  // times begin.
  EXPECT_EQ(waits_of_a_step(*moved, copies), 2 + 2 + 2 + 1);
  job.data.kind = "documents";
  job.data.isolated = true;
  EXPECT_EQ(waits_of_a_step(everything, {}), 2) << "nothing of documents is read from the device";
}

}  // namespace
}  // namespace trireme::device
