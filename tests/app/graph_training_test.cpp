// `train`, `check` and `profile` of a model that is a graph, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "support/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace trireme {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class GraphTraining : public testing::Test {
 protected:
  std::string run_folder(const std::string& name) const {
    return (folder_.path() / "runs" / name).string();
  }
  CommandResult trireme(const std::string& command, const std::string& more = "") const {
    return run_command(kTrireme + " " + command + " " + job_ + " " + more);
  }
  CommandResult train(const std::string& name, const std::string& more = "") const {
    return trireme("train", "--set report.directory=" + run_folder(name) + " " + more);
  }
  json summary(const std::string& name) const {
    std::ifstream file(run_folder(name) + "/summary.json");
    return json::parse(file);
  }

  TemporaryFolder folder_;
  std::string job_ =
      folder_.file("job.yaml",
                   "model: {kind: resnet, depth: 18, image_size: 16, width: 8, grain: operator}\n"
                   "data: {kind: synthetic, examples: 64, validation_fraction: 0.25}\n"
                   "train: {steps: 3, batch: 8, micro_batch: 4, validate_every: 2}\n"
                   "plan: {solver: greedy}\n"  // poet takes the time that it is given
                   "threads: 1\n"
                   "checkpoint: {every: 2}\n");
};

std::string budget(std::int64_t bytes) {
  return "--set memory.device_budget=" + std::to_string(bytes);
}

// Half of what it takes without a budget, with copies to a file.
TEST_F(GraphTraining, HasTheSameBitsInLessMemory) {
  ASSERT_EQ(train("free").exit_code, 0);
  const json free = summary("free");
  const json& rank = free["ranks"][0];
  const std::int64_t peak = rank["peak_bytes"], fixed = rank["static_bytes"];

  const CommandResult run =
      train("tight", budget(fixed + (peak - fixed) / 2) + " --set memory.disk_budget=1GiB");

  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("plan: greedy, "));
  const json tight = summary("tight");
  EXPECT_EQ(tight["parameters_digest"], free["parameters_digest"]);
  EXPECT_EQ(tight["losses_digest"], free["losses_digest"]);
  EXPECT_EQ(tight["validation_loss"], free["validation_loss"]);
  EXPECT_LE(tight["ranks"][0]["peak_bytes"], fixed + (peak - fixed) / 2);
  const double measured = tight["ranks"][0]["peak_bytes"],
               predicted = tight["ranks"][0]["predicted_peak_bytes"];
  EXPECT_NEAR(measured, predicted, 0.02 * measured);
  for (const char* const file : {"plan.json", "graph.yaml", "platform.yaml", "report.html"})
    EXPECT_TRUE(std::filesystem::exists(run_folder("tight") + "/" + file)) << file;
}

TEST_F(GraphTraining, GoesOnAfterACheckpointAsIfItHadNeverStopped) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("parts", "--set train.steps=2 --set train.schedule.kind=constant").exit_code, 0);
  ASSERT_EQ(train("straight", "--set train.schedule.kind=constant").exit_code, 0);

  const CommandResult run = train("parts", "--set train.schedule.kind=constant");

  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(summary("parts")["parameters_digest"], summary("straight")["parameters_digest"]);
}

TEST_F(GraphTraining, TakesAPlanFromAFile) {
  const std::string plan = (folder_.path() / "plan.json").string();
  const CommandResult check = trireme("check", "-o " + plan);
  ASSERT_EQ(check.exit_code, 0) << check.errors;
  EXPECT_THAT(check.out, HasSubstr("compute 1"));

  const CommandResult run = train("given", "--set plan.file=" + plan);

  EXPECT_EQ(run.exit_code, 0) << run.errors;
}

TEST_F(GraphTraining, TooSmallABudgetEndsWith3AndNamesOneThatWorks) {
  const CommandResult run = train("none", budget(1 << 20));

  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.errors, HasSubstr("memory.device_budget"));
  EXPECT_FALSE(std::filesystem::exists(run_folder("none") + "/job.yaml"));
}

// With copies that cost nothing but watts, less energy than the fastest step takes.
TEST_F(GraphTraining, PlansForEnergyAndADeadline) {
  const std::string power = " --set 'energy={busy_w: 30, idle_w: 1, copy_out_w: 1, copy_in_w: 1}'";

  const CommandResult run =
      train("energy", power + " --set plan.objective=energy" + " --set plan.deadline=100x");
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_GT(summary("energy")["energy_j"]["predicted_step"], 0);

  const CommandResult late = train("late", power + " --set plan.deadline=1us");
  EXPECT_EQ(late.exit_code, 3);
  EXPECT_THAT(late.errors, AllOf(HasSubstr("plan.deadline is 1us"), HasSubstr("or later")));

  const CommandResult without = train("none", "--set plan.objective=energy");
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.errors, HasSubstr("energy.busy_w"));
}

TEST_F(GraphTraining, RefusesWhatOnlyChainsHave) {
  EXPECT_THAT(train("x", "--set pipeline.stages=2").errors,
              AllOf(HasSubstr("pipeline.stages"), HasSubstr("model.grain: block")));
  EXPECT_THAT(train("x", "--set memory.tapes=lean").errors, HasSubstr("memory.tapes"));
  EXPECT_THAT(train("x", "--set pipeline.replicas=2").errors, HasSubstr("pipeline.replicas"));
  EXPECT_THAT(train("x", "--set plan.solver=rotor").errors,
              AllOf(HasSubstr("plan.solver"), HasSubstr("must"), HasSubstr("greedy")));
}

// The file that profile writes is one that plan reads.
TEST_F(GraphTraining, IsProfiledToAGraphThatCanBePlanned) {
  const std::string graph = (folder_.path() / "graph.yaml").string();
  ASSERT_EQ(trireme("profile", "-o " + graph).exit_code, 0);
  const std::string device =
      folder_.file("device.yaml", "format: trireme-platform/1\nranks: [{memory_bytes: 4MiB}]\n");

  const CommandResult plan =
      run_command(kTrireme + " plan --solver greedy --graph " + graph + " --platform " + device);

  EXPECT_EQ(plan.exit_code, 0) << plan.errors;
  EXPECT_THAT(plan.out, HasSubstr("135 nodes, 68 forward and 67 backward"));
}

}  // namespace
}  // namespace trireme
