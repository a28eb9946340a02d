// From a job to what its ranks run, without a command.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/prepare/prepared.h"

#include "support/command.h"

#include "trireme/comm/local.h"
#include "trireme/io/node.h"
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

}  // namespace
}  // namespace trireme::prepare
