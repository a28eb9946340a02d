// Jobs with split backwards, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "budgets.h"

#include "trireme/chain/chain.h"
#include "trireme/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

using nlohmann::json;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// By stage of the run's plan: the deferral of weight gradients; -1: whole backwards.
std::vector<int> deferred_passes(const TemporaryFolder& folder) {
  std::vector<int> passes;
  for (const std::optional<int>& number :
       plan::deferred_passes(plan::load_plan(small_run(folder) / "plan.json")))
    passes.push_back(number.value_or(-1));
  return passes;
}

TEST(SplitBackward, GivesTheBitsOfWholeOnes) {
  const TemporaryFolder folder;
  const std::string train = kTrireme + " train " + small_job(folder) + " --set ";
  const auto digests = [&](const std::string& settings) {
    const CommandResult run = run_command(train + settings);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const json summary = summary_of(folder);
    return std::pair(summary["parameters_digest"], summary["losses_digest"]);
  };
  const auto split = digests("pipeline.stages=3");
  EXPECT_THAT(deferred_passes(folder), ElementsAre(-1, 1, 2));
  const std::string plan = folder.file("split.json", text_of(small_run(folder) / "plan.json"));
  EXPECT_EQ(digests("pipeline.stages=3 --set pipeline.split_backward=never"), split);
  EXPECT_THAT(deferred_passes(folder), Each(-1));
  EXPECT_EQ(digests("pipeline.stages=1"), split);
  EXPECT_THAT(deferred_passes(folder), ElementsAre(-1));
  EXPECT_EQ(digests("pipeline.stages=3 --set plan.file=" + plan), split);
  EXPECT_THAT(deferred_passes(folder), ElementsAre(-1, 1, 2));

  const CommandResult refused = run_command(
      train + "pipeline.stages=3 --set pipeline.split_backward=never --set plan.file=" + plan);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("pipeline.split_backward is never, but " + plan +
                                        " has a split backward: must be auto"));

  json grouped = json::parse(text_of(plan));
  grouped["group"] = 2;
  const std::string wrong = folder.file("grouped.json", grouped.dump());
  const CommandResult in_groups = run_command(train + "pipeline.stages=3 --set plan.file=" + wrong);
  EXPECT_EQ(in_groups.exit_code, 2);
  EXPECT_THAT(in_groups.errors,
              HasSubstr("order is for 4 micro-batches or groups of them, must be for 2"));
}

// Jobs that recompute everything do so for the memory.
TEST(SplitBackward, IsNotOfAPolicyThatSparesMemory) {
  const TemporaryFolder folder;
  const CommandResult run = run_command(kTrireme + " train " + small_job(folder) +
                                        " --set pipeline.stages=3 --set plan.solver=recompute_all");
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(deferred_passes(folder), ElementsAre(-1, -1, -1));
}

TEST(SplitBackward, KeepsToBudgetsWithPeaksAsPredicted) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::string stages = "pipeline.stages=2 --set pipeline.schedule=1f1b";
  const CommandResult free = run_command(kTrireme + " train " + job + " --set " + stages);
  ASSERT_EQ(free.exit_code, 0) << free.errors;
  const json unplanned = summary_of(folder);
  std::int64_t most = 0;
  for (const json& rank : unplanned["ranks"])
    most = std::max(most, rank["peak_bytes"].get<std::int64_t>());
  const std::int64_t least = least_budget(job, " --set " + stages);
  ASSERT_LT(least, most);
  int some = 0;
  for (const std::int64_t bytes : {least, (least + most) / 2, most}) {
    const CommandResult run =
        run_command(kTrireme + " train " + job + " --set " + stages + budget(bytes));
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const json planned = summary_of(folder);
    EXPECT_EQ(planned["parameters_digest"], unplanned["parameters_digest"]);
    for (const json& rank : planned["ranks"]) {
      const double peak = rank["peak_bytes"], predicted = rank["predicted_peak_bytes"];
      EXPECT_LE(peak, static_cast<double>(bytes));
      EXPECT_NEAR(predicted, peak, 0.02 * peak);
    }
    // Ranks measure different layers; the times of all are merged.
    for (const chain::LayerCost& layer :
         chain::load_chain(small_run(folder) / "chain.yaml").layers) {
      EXPECT_EQ(layer.split.has_value(), layer.name.starts_with("block")) << layer.name;
      EXPECT_EQ(layer.in_parts().weights > Seconds(0), layer.split.has_value()) << layer.name;
    }
    const std::vector<int> behind = deferred_passes(folder);
    some += *std::max_element(behind.begin(), behind.end()) >= 0 ? 1 : 0;
    if (bytes == most) {
      EXPECT_THAT(run.out, HasSubstr("split backward (zero bubble), weight gradients deferred"));
    }
  }
  EXPECT_GE(some, 1);
}

}  // namespace
}  // namespace trireme
