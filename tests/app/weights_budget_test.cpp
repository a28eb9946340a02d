// `trireme train` with weights, gradients and optimizer state in the offload tier, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct WeightsCase {
  std::string name, model, told;
};

class BudgetOfWeights : public testing::TestWithParam<WeightsCase> {};

TEST_P(BudgetOfWeights, InTheOffloadTierTrainWhereNothingElseDoes) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder, "checkpoint: {every: 2}\n") +
                          " --set model.blocks=6 --set train.precision=bfloat16_weights" +
                          GetParam().model;
  run_command(kTrireme + " train " + job);
  const std::string digest = summary_of(folder)["parameters_digest"];
  const std::string offload = " --set memory.host_budget=64MiB";
  const std::filesystem::path trace = folder.path() / "trace.json";
  const std::int64_t least_held = least_budget(job, offload + " --set memory.weights=device");
  const std::int64_t least = least_budget(job, offload);
  ASSERT_LT(least, least_held);
  const std::string rotor = " --set plan.solver=rotor --set memory.tapes=full";
  EXPECT_THAT(
      run_command(kTrireme + " check " + job + rotor + budget(least_budget(job, offload + rotor)))
          .errors,
      HasSubstr("of host memory for " + GetParam().told));

  for (const std::string& tier : {offload, std::string(" --set memory.disk_budget=64MiB")}) {
    const CommandResult run =
        run_command(kTrireme + " train " + job + tier + budget(least) +
                    " --set checkpoint.resume=never --trace " + trace.string());
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_THAT(run.out, HasSubstr("of streamed weights in the offload tier"));
    const json planned = summary_of(folder);
    EXPECT_EQ(planned["parameters_digest"], digest);
    const json& rank = planned["ranks"][0];
    EXPECT_GT(rank["weights_away_bytes"], 0);
    EXPECT_GT(rank["copy_s"], 0);
    EXPECT_LE(rank["peak_bytes"], least);
    const double peak = rank["peak_bytes"];
    EXPECT_NEAR(rank["predicted_peak_bytes"], peak, 0.02 * peak);
    EXPECT_THAT(text_of(trace), HasSubstr("weights in"));
    if (GetParam().name == "trained") {
      EXPECT_THAT(text_of(trace), HasSubstr("weights out"));
    }
  }
  const std::string plan = folder.file("plan.json", text_of(small_run(folder) / "plan.json"));
  EXPECT_THAT(text_of(plan), HasSubstr("\"streamed\": ["));
  const CommandResult again = run_command(kTrireme + " train " + job + offload + budget(least) +
                                          " --set checkpoint.resume=never --set plan.file=" + plan);
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_GT(summary_of(folder)["ranks"][0]["weights_away_bytes"], 0);
  const CommandResult refused = run_command(kTrireme + " train " + job + offload +
                                            " --set memory.weights=device --set plan.file=" + plan);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("has weights in the offload tier"));
  const CommandResult elsewhere =
      run_command(kTrireme + " train " + job + " --set pipeline.stages=2 --set train.steps=4");
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.errors;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BudgetOfWeights,
    testing::Values(WeightsCase{"frozen", " --set model.lora_rank=2", "frozen weights"},
                    WeightsCase{"trained", "", "weights with their gradients"}),
    [](const testing::TestParamInfo<WeightsCase>& test) { return test.param.name; });

TEST(Budget, LayersAreUpdatedWhereTheJobSays) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder, "checkpoint: {every: 2}\n") +
                          " --set model.blocks=6 --set memory.host_budget=64MiB"
                          " --set memory.weights=offload --set memory.optimizer=offload";
  const std::string afresh = " --set checkpoint.resume=never";
  const auto digest = [&](const std::string& settings) {
    const CommandResult run = run_command(kTrireme + " train " + job + afresh + settings);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return summary_of(folder)["parameters_digest"].get<std::string>();
  };
  const auto plan = [&] { return text_of(small_run(folder) / "plan.json"); };
  const std::string reference = digest(" --set memory.updates=at_end");
  EXPECT_THAT(plan(), Not(HasSubstr("updates")));
  EXPECT_EQ(digest(" --set memory.updates=in_forward"), reference);
  EXPECT_THAT(plan(), HasSubstr("\"updates\": \"in_forward\""));
  const std::string file = folder.file("plan.json", plan());
  EXPECT_EQ(digest(" --set plan.file=" + file), reference);
  const CommandResult other = run_command(kTrireme + " train " + job + afresh +
                                          " --set memory.updates=at_end"
                                          " --set plan.file=" +
                                          file);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("memory.updates is at_end, but"));

  const std::string behind = " --set memory.updates=in_backward";
  const CommandResult clipped = run_command(kTrireme + " train " + job + behind);
  EXPECT_EQ(clipped.exit_code, 2);
  EXPECT_THAT(clipped.errors, HasSubstr("memory.updates is in_backward, but train.clip_norm"));
  const std::string unclipped = " --set train.clip_norm=0";
  EXPECT_EQ(digest(unclipped + behind), digest(unclipped + " --set memory.updates=at_end"));
}

}  // namespace
}  // namespace trireme
