// From a job to what its ranks run, without a command.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/prepare/prepared.h"

#include "support/command.h"
#include "support/input_error.h"

#include "trireme/comm/local.h"
#include "trireme/io/node.h"
#include "trireme/io/sizes.h"
#include "trireme/tier/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <variant>
#include <vector>

namespace trireme::prepare {
namespace {

config::JobSpec job_in(const TemporaryFolder& folder, int stages) {
  config::JobSpec job(io::parse("{}", "small job"));
  job.name = "small";
  job.model = config::MlpSpec{.inputs = 16, .widths = {64, 64, 64}, .classes = 4};
  job.train.batch = 32;
  job.train.micro_batch = 8;
  job.pipeline.stages = stages;
  job.pipeline.replicas = 1;
  job.report.directory = (folder.path() / "run").string();
  return job;
}

void set_budget(config::JobSpec& job, Bytes budget) {
  job.memory.device_budget = {{.bytes = budget}};
}

/// What rank 0 says and prepares, of as many ranks as the job has stages.
struct Told {
  std::variant<Prepared, Misfit> result;
  std::string words;

  const Prepared* prepared() const { return std::get_if<Prepared>(&result); }
};

Told prepared_for(const config::JobSpec& job, const Preparation& known = {}) {
  tier::install_cpu_allocator();
  const model::ChainModel model = model::make_model(job.model);
  const int stages = job.pipeline.stages.value();
  Told told;
  comm::run_local(
      stages, {.timeout = Seconds(30), .stop_requested = {}}, [&](comm::Channel& control) {
        const auto device = ranks::open_rank_device(job, control, stages);
        std::ostringstream out;
        auto result =
            prepare(job, model, {.channel = device->channel(), .device = *device, .stages = stages},
                    known, out);
        device->close();
        if (control.rank() == 0) told = {std::move(result), out.str()};
        control.close();
      });
  return told;
}

TEST(Prepare, NeedsNoCostsWithoutBudgets) {
  const TemporaryFolder folder;

  const Told told = prepared_for(job_in(folder, 2));

  ASSERT_NE(told.prepared(), nullptr);
  EXPECT_FALSE(told.prepared()->forecast);
  EXPECT_EQ(told.prepared()->plan.solver, "keep_all");
  EXPECT_EQ(told.prepared()->program, plan::compile(told.prepared()->plan));
}

TEST(Prepare, GivesWhyNothingFitsAsAValueWithABudgetThatDoes) {
  const TemporaryFolder folder;
  config::JobSpec job = job_in(folder, 2);
  set_budget(job, Bytes(20'000));

  const Told told = prepared_for(job);

  const auto* const misfit = std::get_if<Misfit>(&told.result);
  ASSERT_NE(misfit, nullptr);
  EXPECT_EQ(misfit->tier, Misfit::Tier::kDevice);
  ASSERT_GT(misfit->infeasible.least_budget, Bytes(20'000));

  set_budget(job, misfit->infeasible.least_budget);
  const Told enough = prepared_for(job);
  ASSERT_NE(enough.prepared(), nullptr);
  const Prepared& prepared = *enough.prepared();
  ASSERT_TRUE(prepared.forecast);
  EXPECT_EQ(prepared.program, plan::compile(prepared.plan));
  EXPECT_EQ(prepared.forecast->peaks.size(), 2U);
  for (const Bytes peak : prepared.forecast->peaks)
    EXPECT_LE(peak, misfit->infeasible.least_budget);
  EXPECT_THAT(enough.words, testing::HasSubstr("planning ..."));
}

// Choosing a shape plans it; planning it again would take minutes for a large model.
TEST(Prepare, UsesThePlanOfTheChosenShape) {
  const TemporaryFolder folder;
  config::JobSpec job = job_in(folder, 2);
  job.memory.tapes = "full";
  set_budget(job, Bytes(1'000'000));
  const Told first = prepared_for(job);
  ASSERT_NE(first.prepared(), nullptr);

  const Told again =
      prepared_for(job, {.costs = Preparation::Costs::kAlways, .plan = first.prepared()->plan});

  ASSERT_NE(again.prepared(), nullptr);
  EXPECT_EQ(again.prepared()->plan, first.prepared()->plan);
  EXPECT_THAT(again.words, testing::Not(testing::HasSubstr("planning ...")));

  set_budget(job, Bytes(900'000));  // another question than the plan's
  const Told other =
      prepared_for(job, {.costs = Preparation::Costs::kAlways, .plan = first.prepared()->plan});
  ASSERT_NE(other.prepared(), nullptr);
  EXPECT_THAT(other.words, testing::HasSubstr("planning ..."));
}

/// One rank of 10 W while it computes and 1 W while it waits, whose passes of equal tapes are
/// measured once.
config::JobSpec energy_job(const TemporaryFolder& folder) {
  config::JobSpec job = job_in(folder, 1);
  job.memory.tapes = "full";
  job.energy.power = {.busy = Watts(10), .idle = Watts(1)};
  job.plan.objective = "energy";
  return job;
}

TEST(Prepare, PlansForEnergyWithTheJobsWatts) {
  const TemporaryFolder folder;
  const Told told = prepared_for(energy_job(folder));
  ASSERT_NE(told.prepared(), nullptr);
  const Forecast& forecast = told.prepared()->forecast.value();
  EXPECT_EQ(forecast.platform.ranks.front().power, energy_job(folder).energy.power);
  const simulate::Simulation& step = forecast.simulation;
  const Seconds busy = step.ranks.front().busy;
  EXPECT_NEAR(step.energy.all().count(), 10 * busy.count() + (step.step - busy).count(),
              1e-9 * step.energy.all().count());
  EXPECT_EQ(told.prepared()->plan.energy, step.energy.all());
  EXPECT_THAT(told.words, testing::HasSubstr(" of energy"));
  const auto& others = told.prepared()->plan.alternatives;
  EXPECT_EQ(others.front().policy, "least time");
}

TEST(Prepare, RefusesEnergyThatNothingSaysTheCostOf) {
  const TemporaryFolder folder;
  config::JobSpec job = energy_job(folder);
  job.energy.power = {};
  EXPECT_THAT(support::input_error([&] { prepared_for(job); }),
              testing::HasSubstr("plan.objective is energy, but nothing says what energy costs: "
                                 "give the watts of a rank"));
  job = energy_job(folder);
  job.plan.deadline = "soon";
  EXPECT_THAT(support::input_error([&] { prepared_for(job); }),
              testing::HasSubstr("plan.deadline is soon, must be a time such as 120ms, a factor"));
}

TEST(Prepare, SaysTheLeastDeadlineAndABudgetThatMeetsIt) {
  const TemporaryFolder folder;
  config::JobSpec job = energy_job(folder);
  const Seconds free = prepared_for(job).prepared()->forecast->simulation.step;
  job.plan.deadline = io::time_of_at_least(free);
  set_budget(job, Bytes(1));
  const Bytes least =
      std::get<Misfit>(prepared_for(job).result).infeasible.least_budget;  // recomputes
  set_budget(job, least);

  const Told late = prepared_for(job);

  const auto* const misfit = std::get_if<Misfit>(&late.result);
  ASSERT_NE(misfit, nullptr);
  const plan::Infeasible& why = misfit->infeasible;
  EXPECT_EQ(why.reason, plan::Infeasible::Reason::kDeadline);
  EXPECT_GT(why.least_step, free);
  ASSERT_GT(why.least_budget, least);
  config::JobSpec patient = job;
  patient.plan.deadline = io::time_of_at_least(why.least_step);
  EXPECT_NE(prepared_for(patient).prepared(), nullptr);
  set_budget(job, why.least_budget);
  EXPECT_NE(prepared_for(job).prepared(), nullptr);
}

TEST(Prepare, DoesNotTakeAPlanForTimeAsOneForEnergy) {
  const TemporaryFolder folder;
  config::JobSpec job = energy_job(folder);
  const Told first = prepared_for(job);
  ASSERT_NE(first.prepared(), nullptr);
  const Told again =
      prepared_for(job, {.costs = Preparation::Costs::kAlways, .plan = first.prepared()->plan});
  EXPECT_THAT(again.words, testing::HasSubstr("planning ..."));
}

TEST(Prepare, ForecastsARunAtTheUsualClocksAndAPlanAtItsOwn) {
  const TemporaryFolder folder;
  config::JobSpec job = energy_job(folder);
  job.energy.clocks = {{.name = "half", .time = 2, .power = 0.25}};
  const Told run = prepared_for(job), plan = prepared_for(job, {.plans_alone = true});
  ASSERT_NE(run.prepared(), nullptr);
  ASSERT_NE(plan.prepared(), nullptr);
  EXPECT_EQ(run.prepared()->plan, plan.prepared()->plan);
  EXPECT_EQ(run.prepared()->plan.stages.front().forward_clock, "half");
  const Forecast &usual = *run.prepared()->forecast, &slow = *plan.prepared()->forecast;
  EXPECT_EQ(slow.simulation.step, plan.prepared()->plan.step);
  EXPECT_LT(usual.simulation.step, slow.simulation.step);
  EXPECT_GT(usual.simulation.energy.all(), slow.simulation.energy.all());
  EXPECT_THAT(run.words, testing::HasSubstr("the plan names clocks"));
  EXPECT_THAT(plan.words, testing::Not(testing::HasSubstr("the plan names clocks")));
}

TEST(Prepare, ForecastsARunWhoseClocksAreSetAtThese) {
  const TemporaryFolder folder;
  config::JobSpec job = energy_job(folder);
  job.energy.clocks = {{.name = "800MHz", .time = 2, .power = 0.25}};
  job.energy.set_clocks = true;
  const Told run = prepared_for(job);
  ASSERT_NE(run.prepared(), nullptr);
  const Prepared& prepared = *run.prepared();
  EXPECT_EQ(prepared.plan.stages.front().forward_clock, "800MHz");
  EXPECT_EQ(prepared.plan.stages.front().backward_clock, "800MHz");
  EXPECT_EQ(prepared.forecast->simulation.step, prepared.plan.step);
  EXPECT_THAT(run.words, testing::Not(testing::HasSubstr("they are not set")));
}

}  // namespace
}  // namespace trireme::prepare
