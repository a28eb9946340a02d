// Pipelines cut at random whose stages run random programs: the same bits as one stage that keeps
// everything.
// SPDX-License-Identifier: Apache-2.0
#include "simulate/random_programs.h"
#include "small_runs.h"
#include "support/temporary_folder.h"

#include "trireme/comm/local.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/planner.h"
#include "trireme/profile/measure.h"
#include "trireme/program/groups.h"
#include "trireme/runtime/copies.h"
#include "trireme/schedule/named.h"
#include "trireme/simulate/place_copies.h"
#include "trireme/simulate/validate.h"
#include "trireme/tier/memory.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>

namespace trireme::runtime {
namespace {

constexpr unsigned kPipelines = 32;
/// Changes to the programs of each pipeline, as far as the validator allows them.
constexpr int kChanges = 100;

struct Kind {
  std::string name;
  config::ModelSpec model;
  std::string precision = "float32";
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

/// A job that is cut anew every time.
class RandomPipelines : public testing::TestWithParam<Kind> {
 protected:
  RandomPipelines() {
    tier::install_cpu_allocator();
    job_.train.precision = GetParam().precision;
    job_.train.batch = 5 * job_.train.micro_batch.value();
    job_.train.steps = 2;
    model_ = model::make_model(job_.model);
    chain_ =
        profile::measure(model_, job_, {.threads = 1, .least_time = Seconds(0), .least_runs = 1});
  }

  plan::Plan plan_of(simulate::Dice& dice) const {
    const int stages = dice.roll(1, std::min(5, model_.length()));
    plan::Plan plan;
    plan.chain_name = model_.name;
    plan.schedule = dice.roll(0, 4) == 0 ? "gpipe" : "1f1b";
    plan.micro_batches = config::micro_batches(job_);
    plan.weights_at_once = dice.roll(2, 3);
    for (program::StageProgram& program :
         simulate::random_stages(dice, chain_, stages, /*copies=*/true)) {
      plan::StagePlan stage;
      stage.rank = static_cast<int>(plan.stages.size());
      if (dice.roll(0, 2) == 0)
        stage.mix = {.others = {simulate::RandomStage(dice, program.first_layer, program.last_layer,
                                                      /*copies=*/true)
                                    .make()},
                     .cycle = {0, 1, dice.roll(0, 1)}};
      stage.program = std::move(program);
      stage.offloaded_optimizer = Bytes(std::max(0, dice.roll(-10'000, 20'000)));
      for (int i = stage.program.first_layer; i <= stage.program.last_layer; ++i)
        if (chain_.layer(i).may_leave().all() > Bytes(0) && dice.roll(0, 2) > 0)
          stage.streamed.push_back(i);
      plan.stages.push_back(std::move(stage));
    }
    if (dice.roll(0, 1) == 0) change(plan, [&](plan::Plan& other) { share_ranks(dice, other); });
    if (dice.roll(0, 1) == 0)
      change(plan, [&](plan::Plan& other) { other.group = dice.roll(2, other.micro_batches); });
    if (dice.roll(0, 1) == 0)
      change(plan, [&](plan::Plan& other) {
        const int groups = program::groups_of(other.micro_batches, other.group);
        const bool may_split = other.group == 1;
        plan::set_order(other,
                        simulate::any_order(dice, plan::placement(other), groups, may_split));
      });
    for (int k = 0; k < kChanges; ++k)
      change(plan, [&](plan::Plan& other) {
        program::StageProgram& program =
            other.stages[static_cast<std::size_t>(dice.roll(0, stages - 1))].program;
        program = simulate::changed(dice, std::move(program));
      });
    return plan;
  }

  /// Applies `how` if the validator allows the result.
  void change(plan::Plan& plan, const std::function<void(plan::Plan&)>& how) const {
    plan::Plan other = plan;
    how(other);
    if (is_legal(other)) plan = std::move(other);
  }

  /// Puts stages at random on fewer ranks, numbered in order of appearance.
  static void share_ranks(simulate::Dice& dice, plan::Plan& plan) {
    std::map<int, int> numbers;
    const int most = dice.roll(0, static_cast<int>(plan.stages.size()) - 1);
    for (plan::StagePlan& stage : plan.stages)
      stage.rank =
          numbers.emplace(dice.roll(0, most), static_cast<int>(numbers.size())).first->second;
  }

  bool is_legal(const plan::Plan& plan) const {
    const chain::Platform platform = platform_for(plan);
    try {
      return !simulate::validate(plan::compile(plan, chain_), setting_of(plan, platform));
    } catch (const InputError&) {
      return false;
    }
  }

  simulate::Setting setting_of(const plan::Plan& plan, const chain::Platform& platform) const {
    return {.chain = &chain_,
            .platform = &platform,
            .static_bytes = {},
            .streamed = plan::streamed_weights(plan, chain_),
            .weights_at_once = plan.weights_at_once};
  }

  static chain::Platform platform_for(const plan::Plan& plan) {
    chain::Platform platform = chain::uniform_platform(plan::ranks_of(plan), Bytes(0));
    for (chain::RankSpec& rank : platform.ranks) {
      rank.host = Bytes(std::int64_t{1} << 30);
      rank.out = rank.in = BytesPerSecond(1e8);
    }
    return platform;
  }

  RunSummary run(const plan::Plan& plan, const Checkpointing& checkpoints = {}) {
    const int ranks = plan::ranks_of(plan);
    const chain::Platform platform = platform_for(plan);
    const program::Program whole = plan::compile(plan, chain_);
    const simulate::Setting setting = setting_of(plan, platform);
    EXPECT_TRUE(is_legal(plan));
    const program::Program program =
        simulate::place_copies(whole, setting,
                               simulate::simulate(whole, setting, simulate::Detail::kTimeline))
            .program;
    const DataSource data = random_data(model_, job_);
    RunSummary summary;
    comm::run_local(
        ranks, {.timeout = job_.pipeline.timeout, .stop_requested = {}},
        [&](comm::Channel& channel) {
          Trainer trainer({.job = job_,
                           .model = model_,
                           .plan = plan,
                           .program = program,
                           .data = data,
                           .channel = channel,
                           .memory = tier::MemoryAccount::open("rank"),
                           .make_copies = copies_to_memory,
                           .optimizer_parts = {Bytes(3000)},
                           .make_optimizer_copies =
                               [](Bytes room) {
                                 return std::make_unique<Copies>(
                                     tier::OffloadStoreOptions{.host = room, .disk = Bytes(0)});
                               },
                           .make_weight_copies = copies_to_memory,
                           .checkpoints = checkpoints,
                           .owns_process = ranks == 1,
                           .stop_requested = {},
                           .since_start = [] { return Seconds(0); }});
          const RunSummary mine = trainer.run(nullptr).summary;
          const std::lock_guard lock(mutex_);
          if (channel.rank() == 0) summary = mine;
        });
    return summary;
  }

  static std::unique_ptr<tier::ValueCopies> copies_to_memory() {
    return std::make_unique<Copies>(
        tier::OffloadStoreOptions{.host = Bytes(64 << 20), .disk = Bytes(0), .checksums = true});
  }

  config::JobSpec job_ = small_job(GetParam().model);
  model::ChainModel model_;
  chain::Chain chain_;
  std::mutex mutex_;
};

TEST_P(RandomPipelines, GiveTheBitsOfOneStageThatKeepsEverything) {
  const RunSummary expected = run_small(job_, {});
  int moved = 0, shared = 0, split = 0;
  for (unsigned seed = 0; seed < kPipelines; ++seed) {
    simulate::Dice dice(seed);
    const plan::Plan plan = plan_of(dice);
    const std::string text = program::to_text(plan::compile(plan, chain_));
    SCOPED_TRACE(concat("pipeline ", seed, ":\n", text));
    const RunSummary found = run(plan);
    ASSERT_EQ(found.parameters_digest, expected.parameters_digest);
    ASSERT_EQ(found.losses_digest, expected.losses_digest);
    shared += plan::has_rank_for_each_stage(plan) ? 0 : 1;
    split += plan::has_split_backward(plan) ? 1 : 0;
    moved += text.find("offload") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(moved, 3);
  EXPECT_GE(shared, 3);
  EXPECT_GE(split, 3);
}

TEST_P(RandomPipelines, GoOnFromWhatAnotherOneHasSaved) {
  const RunSummary expected = run_small(job_, {});
  for (unsigned seed = 0; seed < kPipelines / 2; ++seed) {
    SCOPED_TRACE(seed);
    simulate::Dice dice(1'000'000 + seed);
    const support::TemporaryFolder folder;
    Checkpointing saved, from;
    saved.folder = folder.path();
    saved.every = 1;
    saved.job = "train: {}\n";
    from.resume = folder / "step-1";
    const RunSummary whole = run(plan_of(dice), saved);
    const RunSummary resumed = run(plan_of(dice), from);
    ASSERT_EQ(whole.parameters_digest, expected.parameters_digest);
    ASSERT_EQ(resumed.parameters_digest, expected.parameters_digest);
    ASSERT_EQ(resumed.losses_digest, expected.losses_digest);
  }
}

config::GptSpec fine_gpt() {
  config::GptSpec spec = small_gpt();
  spec.grain = "fine";
  return spec;
}

INSTANTIATE_TEST_SUITE_P(
    Models, RandomPipelines,
    testing::Values(Kind{"gpt", small_gpt()}, Kind{"gpt_fine", fine_gpt()},
                    Kind{"gpt_bfloat16_weights", small_gpt(), "bfloat16_weights"},
                    Kind{"gpt_lora", with_adapters()}, Kind{"mlp_batch_norm", small_mlp()}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme::runtime
