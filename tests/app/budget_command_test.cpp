// `train` and `check` within budgets, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "budgets.h"

#include "trireme/chain/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Budget, TheLeastThatWorksTrainsWithTheSameBits) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  run_command(kTrireme + " train " + job);
  const json free = summary_of(folder);
  const std::int64_t least = least_budget(job);
  ASSERT_LT(least, free["ranks"][0]["peak_bytes"]);

  const CommandResult run = run_command(kTrireme + " train " + job + budget(least));

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const json planned = summary_of(folder);
  EXPECT_EQ(planned["parameters_digest"], free["parameters_digest"]);
  EXPECT_EQ(planned["losses_digest"], free["losses_digest"]);
  const json& rank = planned["ranks"][0];
  EXPECT_LE(rank["peak_bytes"], least);
  const double peak = rank["peak_bytes"], predicted = rank["predicted_peak_bytes"];
  EXPECT_NEAR(predicted, peak, std::max(0.02 * peak, 0.0));
  EXPECT_GT(rank["recompute_s"], 0);
  EXPECT_GT(planned["predicted_step_s"], 0);
}

TEST(Budget, PlansForLinksAsTheyWereMeasured) {
  const TemporaryFolder folder;

  const CommandResult run =
      run_command(kTrireme + " train " + small_job(folder) +
                  " --set pipeline.stages=3 --set memory.device_budget=64MiB");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const chain::Platform platform = chain::load_platform(small_run(folder) / "platform.yaml");
  ASSERT_EQ(platform.overrides.size(), 2);
  for (const chain::LinkOverride& neighbours : platform.overrides) {
    EXPECT_EQ(neighbours.to, neighbours.from + 1);
    EXPECT_GT(neighbours.link.rate, BytesPerSecond(0));
    EXPECT_GT(neighbours.link.latency, Seconds(0));
    EXPECT_LE(platform.default_link.rate, neighbours.link.rate);
    EXPECT_GE(platform.default_link.latency, neighbours.link.latency);
  }
}

TEST(Budget, OneByteLessEndsWith3AndWritesNothing) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::int64_t least = least_budget(job);

  const CommandResult run = run_command(kTrireme + " train " + job + budget(least - 1));

  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.errors, HasSubstr("the smallest budget that works is " + std::to_string(least)));
  EXPECT_FALSE(std::filesystem::exists(small_run(folder)));
}

/// The settings that a refusal advises.
std::string given(const CommandResult& refused, const std::string& key) {
  const std::string name = "memory." + key, before = name + ": ";
  const std::size_t begin = refused.errors.find(before, refused.errors.find(". Give "));
  if (begin == std::string::npos) return " --set " + name + "=not-told";
  const std::size_t value = begin + before.size();
  const std::size_t end = refused.errors[value] == '['
                              ? refused.errors.find(']', value) + 1
                              : refused.errors.find_first_of(" ,\n", value);
  return " --set '" + name + "=" + refused.errors.substr(value, end - value) + "'";
}

// Budgets from the command line, from the file, as a share, with a named solver, and one for each
// rank.
TEST(Budget, ThatIsTooSmallIsToldWithItsPlaceAndWithWhatFits) {
  struct Case {
    std::string file, settings, place;
  };
  for (const auto& [file, settings, place] : std::vector<Case>{
           {"", " --set memory.device_budget=10",
            "--set memory.device_budget is 10, which is 10 "
            "bytes (did you mean '10GiB'?), in which nothing"},
           {"memory: {device_budget: 100KiB}\n", "",
            "small.yaml:6: memory.device_budget is 100KiB, in which nothing fits"},
           {"", " --set plan.solver=rotor --set memory.device_budget=100KiB",
            "--set memory.device_budget is 100KiB, in which plan.solver rotor does not fit"},
           {"memory: {device_budget: 0.000001%}\n", "",
            "small.yaml:6: memory.device_budget is 0.000001%, "},
           {"", " --set pipeline.stages=2 --set 'memory.device_budget=[100KiB,50KiB]'",
            "--set memory.device_budget has "},
           {"", " --set train.micro_batch=auto --set memory.device_budget=100KiB",
            "--set memory.device_budget is 100KiB, in which nothing fits"}}) {
    const TemporaryFolder folder;
    const std::string check = kTrireme + " check " + small_job(folder, file) + settings;

    const CommandResult refused = run_command(check);

    EXPECT_EQ(refused.exit_code, 3) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr(place));
    const CommandResult taken = run_command(check + given(refused, "device_budget"));
    EXPECT_EQ(taken.exit_code, 0) << refused.errors << taken.errors;
  }
}

TEST(Budget, ThatIsTooSmallIsToldTheHostMemoryWithWhichItFits) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::int64_t least = least_budget(job, " --set memory.host_budget=64MiB");
  const std::string check = kTrireme + " check " + job + budget(least);

  const CommandResult refused = run_command(check);

  EXPECT_EQ(refused.exit_code, 3) << refused.errors;
  const CommandResult taken = run_command(check + given(refused, "host_budget"));
  EXPECT_EQ(taken.exit_code, 0) << refused.errors << taken.errors;
}

TEST(Budget, ValuesMayGoToDiskAndLeaveNothingThere) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::filesystem::path disk = folder.path() / "disk";
  std::filesystem::create_directory(disk);
  run_command(kTrireme + " train " + job);
  const std::string digest = summary_of(folder)["parameters_digest"];
  const std::string settings =
      " --set plan.solver=offload --set memory.disk_budget=64MiB "
      "--set memory.disk_path=" +
      disk.string();
  const std::int64_t least = least_budget(job, settings);

  const CommandResult run = run_command(kTrireme + " train " + job + settings + budget(least));

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const json planned = summary_of(folder);
  EXPECT_EQ(planned["parameters_digest"], digest);
  EXPECT_GT(planned["ranks"][0]["copy_s"], 0);
  EXPECT_LE(planned["ranks"][0]["peak_bytes"], least);
  EXPECT_TRUE(std::filesystem::is_empty(disk));
}

/// Offloaded optimizer state of all ranks.
std::int64_t offloaded(const json& summary) {
  std::int64_t sum = 0;
  for (const json& rank : summary["ranks"]) sum += rank["optimizer_away_bytes"].get<std::int64_t>();
  return sum;
}

TEST(Budget, OptimizerStateInTheOffloadTierTrainsWhereNothingElseDoes) {
  const TemporaryFolder folder;
  const std::string job =
      small_job(folder, "checkpoint: {every: 2}\n") + " --set memory.weights=device";
  run_command(kTrireme + " train " + job);
  const std::string digest = summary_of(folder)["parameters_digest"];
  const std::string offload = " --set memory.host_budget=64MiB";
  const std::int64_t least_held = least_budget(job, offload + " --set memory.optimizer=device");
  const std::int64_t least = least_budget(job, offload);
  ASSERT_LT(least, least_held);

  for (const std::string& tier : {offload, std::string(" --set memory.disk_budget=64MiB")}) {
    const CommandResult run = run_command(kTrireme + " train " + job + tier + budget(least) +
                                          " --set checkpoint.resume=never");
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_THAT(run.out, HasSubstr("of optimizer state in the offload tier, updates take"));
    const std::string page = text_of(small_run(folder) / "report.html");
    EXPECT_THAT(page, HasSubstr(" of optimizer state</div>"));
    EXPECT_THAT(page, HasSubstr(">optimizer offloaded</th>"));
    const json planned = summary_of(folder);
    EXPECT_EQ(planned["parameters_digest"], digest);
    EXPECT_GT(offloaded(planned), 0);
    EXPECT_LE(planned["ranks"][0]["peak_bytes"], least);
    const double peak = planned["ranks"][0]["peak_bytes"];
    EXPECT_NEAR(planned["ranks"][0]["predicted_peak_bytes"], peak, 0.02 * peak);
  }
  // Another run takes its plan, and a run elsewhere resumes from its checkpoint.
  const std::string plan = folder.file("plan.json", text_of(small_run(folder) / "plan.json"));
  const CommandResult again = run_command(kTrireme + " train " + job + offload + budget(least) +
                                          " --set checkpoint.resume=never --set plan.file=" + plan);
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_GT(offloaded(summary_of(folder)), 0);
  const CommandResult nowhere =
      run_command(kTrireme + " train " + job + " --set plan.file=" + plan);
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.errors, HasSubstr(plan + ": has optimizer state in the offload tier, but the "
                                               "job has none: give memory.host_budget or"));
  const CommandResult refused =
      run_command(kTrireme + " train " + job + offload +
                  " --set memory.optimizer=device --set plan.file=" + plan);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("has optimizer state in the offload tier"));
  const CommandResult elsewhere =
      run_command(kTrireme + " train " + job + " --set pipeline.stages=2 --set train.steps=4");
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.errors;
  EXPECT_EQ(offloaded(summary_of(folder)), 0);
}

TEST(Budget, OfReplicasThatDivideTheOptimizerIsLess) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder, "checkpoint: {every: 3}\n") +
                          " --set pipeline.replicas=2 --set train.micro_batch=1 --set "
                          "train.precision=bfloat16_weights";
  const std::string whole = " --set memory.shard_optimizer=false";
  EXPECT_EQ(run_command(kTrireme + " train " + job + whole).exit_code, 0);
  const std::string digest = summary_of(folder)["parameters_digest"];
  const std::int64_t least = least_budget(job, "");
  EXPECT_LT(least, least_budget(job, whole));

  const CommandResult run =
      run_command(kTrireme + " train " + job + budget(least) + " --set checkpoint.resume=never");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("optimizer state sharded over 2 replicas (ZeRO-1)"));
  const json planned = summary_of(folder);
  EXPECT_EQ(planned["parameters_digest"], digest);
  for (const json& rank : planned["ranks"]) {
    const double peak = rank["peak_bytes"];
    EXPECT_LE(peak, least);
    // For a layer the planner counts 2 KiB for rounding, or all of its state where that is less.
    EXPECT_NEAR(rank["predicted_peak_bytes"], peak, 0.02 * peak + 5 * 2048);
  }
  // Other commands read what it has written.
  const std::filesystem::path& run_folder = small_run(folder);
  const std::string chain = (run_folder / "chain.yaml").string();
  const std::string plan = folder.file("plan.json", text_of(run_folder / "plan.json"));
  const CommandResult check = run_command(kTrireme + " check " + plan + " --chain " + chain +
                                          " --platform " + (run_folder / "platform.yaml").string());
  EXPECT_EQ(check.exit_code, 0) << check.errors;
  const CommandResult others = run_command(kTrireme + " train " + job + budget(least) +
                                           " --set pipeline.replicas=1 --set train.micro_batch=2" +
                                           " --set plan.file=" + plan);
  EXPECT_EQ(others.exit_code, 2);
  EXPECT_THAT(others.errors, HasSubstr("shards the optimizer state over 2 replicas, but the "
                                       "job has 1"));
  const CommandResult elsewhere =
      run_command(kTrireme + " train " + job + whole +
                  " --set pipeline.replicas=1 --set train.micro_batch=2 --set train.steps=4" +
                  " --set checkpoint.resume=must");
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.errors;
  EXPECT_EQ(run_command(kTrireme + " export " + run_folder.string() + " -o " +
                        (folder.path() / "all.safetensors").string())
                .exit_code,
            0);
}

TEST(Budget, OfStateThatWouldHaveToLeaveSaysHowMuchHostMemoryItTakes) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder) + " --set memory.weights=device";
  const std::int64_t least =
      least_budget(job, " --set memory.host_budget=64MiB --set memory.optimizer=offload");
  const CommandResult run = run_command(kTrireme + " train " + job + budget(least));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.errors, HasSubstr("of host memory for the optimizer's state"));
}

TEST(Budget, EveryStageKeepsItsOwn) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  run_command(kTrireme + " train " + job);
  const std::string digest = summary_of(folder)["parameters_digest"];
  const std::int64_t least = least_budget(job, "--set pipeline.stages=2");
  const std::string budgets = " --set pipeline.stages=2 --set memory.device_budget=[" +
                              std::to_string(least) + "," + std::to_string(2 * least) + "]";

  const CommandResult run = run_command(kTrireme + " train " + job + budgets);

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const json planned = summary_of(folder);
  EXPECT_EQ(planned["parameters_digest"], digest);
  ASSERT_EQ(planned["ranks"].size(), 2U);
  for (const json& rank : planned["ranks"]) {
    EXPECT_LE(rank["peak_bytes"], rank["budget_bytes"]);
    const double peak = rank["peak_bytes"], predicted = rank["predicted_peak_bytes"];
    EXPECT_NEAR(predicted, peak, std::max(0.02 * peak, 1048576.0));
  }
  const std::string plan = folder.file("plan.json", text_of(small_run(folder) / "plan.json"));
  const bool is_lean = json::parse(text_of(plan)).value("tapes", "full") == "lean";
  for (const std::string other :
       {"pipeline.cut=[5]", "plan.solver=keep_all", "pipeline.schedule=gpipe",
        is_lean ? "memory.tapes=full" : "memory.tapes=lean"}) {
    const CommandResult refused =
        run_command(kTrireme + " train " + job + " --set pipeline.stages=2 --set " + other +
                    " --set plan.file=" + plan);
    EXPECT_EQ(refused.exit_code, 2) << other;
    const std::size_t equals = other.find('=');
    EXPECT_THAT(refused.errors, HasSubstr(other.substr(0, equals) + " is " +
                                          other.substr(equals + 1) + ", but " + plan));
  }
}

TEST(Budget, TheRunFolderHoldsWhatThePlanRestsOn) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::string page = (folder.path() / "out.html").string();
  const std::string trace = (folder.path() / "out.json").string();

  const CommandResult run = run_command(kTrireme + " train " + job + budget(4 << 20) +
                                        " --report " + page + " --trace " + trace);
  const std::string held = small_run(folder).string();
  const CommandResult again =
      run_command(kTrireme + " check " + held + "/plan.json --chain " + held +
                  "/chain.yaml --platform " + held + "/platform.yaml");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(text_of(page), text_of(small_run(folder) / "report.html"));
  EXPECT_THAT(text_of(page), HasSubstr("<svg"));
  EXPECT_TRUE(json::parse(text_of(trace)).contains("traceEvents"));
}

TEST(Budget, APlanOfCheckIsThePlanThatTrains) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::string plan = (folder.path() / "plan.json").string();
  const std::int64_t least = least_budget(job);

  const CommandResult check =
      run_command(kTrireme + " check " + job + budget(least) + " -o " + plan);
  const CommandResult run =
      run_command(kTrireme + " train " + job + budget(least) + " --set plan.file=" + plan);

  EXPECT_EQ(check.exit_code, 0) << check.errors;
  EXPECT_FALSE(std::filesystem::exists(small_run(folder) / "summary.json.tmp"));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(json::parse(text_of(small_run(folder) / "plan.json")), json::parse(text_of(plan)));
}

TEST(Budget, APlanOverTheBudgetIsRefusedBeforeItRuns) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::string plan = (folder.path() / "plan.json").string();
  run_command(kTrireme + " check " + job + " --set plan.solver=keep_all -o " + plan);

  const CommandResult run = run_command(kTrireme + " train " + job + budget(least_budget(job)) +
                                        " --set plan.file=" + plan);

  EXPECT_EQ(run.exit_code, 3) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("in which the plan in " + plan + " does not fit"));
  EXPECT_EQ(run_command(kTrireme + " check " + job + " --set plan.file=" + plan +
                        given(run, "device_budget"))
                .exit_code,
            0);
}

}  // namespace
}  // namespace trireme
