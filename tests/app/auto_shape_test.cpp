// `auto` for stages, replicas and the micro-batch size, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "small_job.h"

#include "trireme/config/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kTrireme = TRIREME_BINARY;
const std::string kOpenSize = " --set train.micro_batch=auto";

json summary_of(const TemporaryFolder& folder) {
  return json::parse(text_of(small_run(folder) / "summary.json"));
}

/// The job as stored in the run's folder.
config::JobSpec resolved(const TemporaryFolder& folder) {
  return config::load_job(small_run(folder) / "job.yaml", {});
}

/// The smallest budget per rank with micro-batches of this size.
std::int64_t least_budget(const std::string& job, int micro_batch) {
  const CommandResult run =
      run_command(kTrireme + " check --json " + job + " --set memory.device_budget=1 " +
                  "--set train.micro_batch=" + std::to_string(micro_batch));
  EXPECT_EQ(run.exit_code, 3) << run.errors;
  return json::parse(run.out)["infeasible"]["least_budget_bytes"];
}

TEST(AutoShape, TrainsOnTwoThreadsWithTheNumbersItChose) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder) + " --set pipeline.stages=2";

  const CommandResult run = run_command(kTrireme + " train " + job + kOpenSize);

  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("\nshape: 2 stages x 1 replica, "));
  const config::JobSpec chosen = resolved(folder);
  EXPECT_EQ(chosen.pipeline.stages, 2);
  EXPECT_EQ(chosen.pipeline.replicas, 1);
  ASSERT_TRUE(chosen.train.micro_batch);
  EXPECT_EQ(8 % *chosen.train.micro_batch, 0);
  const json summary = summary_of(folder);
  EXPECT_EQ(summary["ranks"].size(), 2U);
  EXPECT_GT(summary["predicted_step_s"], 0);
  for (const json& rank : summary["ranks"]) {
    const double peak = rank["peak_bytes"], predicted = rank["predicted_peak_bytes"];
    EXPECT_NEAR(predicted, peak, std::max(0.02 * peak, 1048576.0));
  }
}

TEST(AutoShape, GivesTheBitsOfTheSameNumbersFixed) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  ASSERT_EQ(run_command(kTrireme + " train " + job + kOpenSize).exit_code, 0);
  const json open = summary_of(folder);
  const int size = resolved(folder).train.micro_batch.value();

  run_command(kTrireme + " train " + job + " --set train.micro_batch=" + std::to_string(size));

  EXPECT_EQ(summary_of(folder)["parameters_digest"], open["parameters_digest"]);
  EXPECT_EQ(summary_of(folder)["losses_digest"], open["losses_digest"]);
}

TEST(AutoShape, TakesTheOnlyOneThatFits) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::int64_t least = least_budget(job, 1);
  ASSERT_LT(least, least_budget(job, 2));

  const CommandResult run = run_command(kTrireme + " train " + job + kOpenSize +
                                        " --set memory.device_budget=" + std::to_string(least));

  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("does not fit: rank 0 needs"));
  EXPECT_EQ(resolved(folder).train.micro_batch, 1);
  EXPECT_LE(summary_of(folder)["ranks"][0]["peak_bytes"], least);
}

TEST(AutoShape, NoneThatFitsEndsWith3AndTheLeastBudget) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::int64_t least = least_budget(job, 1);

  const CommandResult run = run_command(kTrireme + " train " + job + kOpenSize +
                                        " --set memory.device_budget=" + std::to_string(least - 1));

  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.errors,
              HasSubstr("the smallest budget that works is at most " + std::to_string(least)));
  EXPECT_FALSE(std::filesystem::exists(small_run(folder)));
}

TEST(AutoShape, NothingIsMeasuredWhereOneShapeIsLeft) {
  const TemporaryFolder folder;

  const CommandResult run =
      run_command(kTrireme + " train " + small_job(folder) + " --set pipeline.replicas=auto");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("shape: 1 stage x 1 replica, 4 micro-batches of 2, the only"));
  EXPECT_THAT(run.out, Not(HasSubstr("profile:")));
}

TEST(AutoShape, CheckChoosesForRanksThatAreNotThere) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);

  const CommandResult run = run_command(kTrireme + " check " + job + kOpenSize +
                                        " --set pipeline.replicas=auto --ranks 4 --json");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const std::size_t stages = json::parse(run.out)["stages"].size();
  EXPECT_EQ(4U % stages, 0U);
  EXPECT_THAT(run.errors, HasSubstr("\nshape: " + std::to_string(stages) + " stage"));
  EXPECT_FALSE(std::filesystem::exists(small_run(folder)));
}

TEST(AutoShape, OnlyThePrintedJobStaysOpen) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);

  const CommandResult run = run_command(kTrireme + " check --resolved " + job + kOpenSize);

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("  micro_batch: auto\n"));
  EXPECT_THAT(run.errors, HasSubstr("are chosen when it runs"));
  const CommandResult as_json =
      run_command(kTrireme + " check --resolved --json " + job + kOpenSize);
  EXPECT_TRUE(json::parse(as_json.out)["micro_batches"].is_null());
}

TEST(AutoShape, ProfilingNeedsASize) {
  const TemporaryFolder folder;

  const CommandResult run = run_command(kTrireme + " profile " + small_job(folder) + kOpenSize);

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("--set train.micro_batch=4"));
}

}  // namespace
}  // namespace trireme
