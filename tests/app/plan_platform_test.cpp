// `trireme plan` with a platform file: offload tiers, rates, memory.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string platform_with_link(const PlanFolder& files, int host_bytes) {
  return files.folder.file("platform.yaml",
                           "format: trireme-platform/1\n"
                           "ranks: [{memory_bytes: 15, host_bytes: " +
                               std::to_string(host_bytes) +
                               ", out_bytes_per_s: 1, in_bytes_per_s: 1}]\n");
}

TEST(PlanCommand, HasOptimizerStateOffloadedWhereThatFits) {
  const PlanFolder files;
  files.folder.file("chain.yaml", replaced(chain_a_text(), "tape_bytes: 4,",
                                           "tape_bytes: 4, optimizer_bytes: 6,"));
  files.folder.file("platform.yaml",
                    "format: trireme-platform/1\nranks:\n  - {memory_bytes: 14, host_bytes: 100, "
                    "out_bytes_per_s: 2, in_bytes_per_s: 4}\n");
  const std::string platform = " --platform " + files.path("platform.yaml");

  EXPECT_EQ(files.plan("--solver rotor --optimizer device" + platform).exit_code, 3);
  const CommandResult result = files.plan("--solver rotor -o " + files.path("p.json") + platform);

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  // As without the state, plus 6 bytes at 2 bytes per second.
  EXPECT_THAT(result.out, HasSubstr("time      32.0 s per step, +23.1 % over the ideal 26.0 s"));
  EXPECT_THAT(result.out, HasSubstr("offloaded 6 B of optimizer state"));
  const CommandResult looked = run_command(kTrireme + " simulate " + files.path("p.json") +
                                           " --chain " + files.chain + platform);
  EXPECT_EQ(looked.exit_code, 0) << looked.errors;
  EXPECT_THAT(looked.out, HasSubstr("step      32.0 s"));
  // Its rates are not in the plan.
  EXPECT_EQ(run_command(kTrireme + " simulate " + files.path("p.json") + " --chain " + files.chain)
                .exit_code,
            2);
}

// 10 bytes of frozen weights in each of four layers, whose copies in take 40 seconds.
TEST(PlanCommand, GroupsMicroBatchesWhereWeightsComeForEveryUse) {
  const PlanFolder files;
  std::string chain = chain_a_text();
  for (const char* tape : {"tape_bytes: 4,", "tape_bytes: 3,", "tape_bytes: 5,", "tape_bytes: 2,"})
    chain = replaced(chain, tape, std::string(tape) + " parameter_bytes: 10, frozen_bytes: 10,");
  files.folder.file("chain.yaml", chain);
  files.folder.file("platform.yaml",
                    "format: trireme-platform/1\nranks:\n  - {memory_bytes: 58, host_bytes: 100, "
                    "out_bytes_per_s: 0.25, in_bytes_per_s: 0.25}\n");
  const std::string options = "--solver rotor --weights offload --micro-batches 4 --platform " +
                              files.path("platform.yaml") + " ";
  const CommandResult result = files.plan(options + "-o " + files.path("p.json"));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("4 micro-batches per step, in groups of 4, one stage"));
  EXPECT_THAT(result.out, HasSubstr("micro-batches one by one"));
  EXPECT_LT(files.step_of(options), 0.6 * files.step_of(options + "--group 1"));
  const CommandResult looked =
      run_command(kTrireme + " simulate " + files.path("p.json") + " --chain " + files.chain +
                  " --platform " + files.path("platform.yaml") + " --json");
  ASSERT_EQ(looked.exit_code, 0) << looked.errors;
  const json simulated = json::parse(looked.out);
  EXPECT_EQ(simulated["group"], 4);
  EXPECT_EQ(simulated["step_s"], files.step_of(options));
}

// Unless state is offloaded nothing fits.
TEST(PlanCommand, ComparesSolversWithTheStateWhereItIsBest) {
  const TemporaryFolder folder;
  std::string chain = "format: trireme-chain/1\nname: state\ninput_bytes: 10\nlayers:\n";
  for (int i = 1; i <= 6; ++i)
    chain +=
        "- {name: l, forward_s: 1, backward_s: 2, output_bytes: 10, tape_bytes: 30, "
        "parameter_bytes: 20, gradient_bytes: 20, optimizer_bytes: 40}\n";
  const std::string files =
      " --chain " + folder.file("chain.yaml", chain) + " --platform " +
      folder.file("platform.yaml",
                  "format: trireme-platform/1\nranks:\n- {memory_bytes: 420, host_bytes: 10000, "
                  "out_bytes_per_s: 100, in_bytes_per_s: 100}\n");
  const auto step = [&](const std::string& options) {
    const CommandResult result = run_command(kTrireme + " plan" + files + " --json" + options);
    EXPECT_EQ(result.exit_code, 0) << options << result.errors;
    return json::parse(result.out)["predicted"]["step_s"].get<double>();
  };

  const double named = step(" --solver recompute_all");
  EXPECT_LE(step(" --solver all"), named);
  EXPECT_EQ(step(" --solver recompute_all --schedule gpipe"), named);
  const CommandResult on_device = run_command(kTrireme + " plan" + files + " --optimizer device");
  EXPECT_EQ(on_device.exit_code, 3);
  // Less may do: what is copied to the host is not counted.
  EXPECT_THAT(on_device.errors, HasSubstr("the smallest budget that works is at most "));
}

TEST(PlanCommand, WantsAnOffloadTierForWhatIsToLieThere) {
  const PlanFolder files;
  for (const std::string option : {"--optimizer", "--weights"}) {
    const CommandResult result = files.plan("--memory 18 " + option + " offload");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, HasSubstr(option + ": is offload, but no rank has an offload tier"));
  }
}

TEST(PlanCommand, TakesAnOffloadTierThatIsOnlyReadForWeights) {
  const PlanFolder files;
  const std::string with =
      " --platform " + files.folder.file("platform.yaml",
                                         "format: trireme-platform/1\n"
                                         "ranks:\n  - {memory_bytes: 18, host_bytes: 1KiB, "
                                         "in_bytes_per_s: 10}\n");
  EXPECT_EQ(files.plan(with + " --weights offload").exit_code, 0);
  const CommandResult result = files.plan(with + " --optimizer offload");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("no rank has an offload tier"));
}

TEST(PlanCommand, PlansForTheFirstRankOfAPlatform) {
  const PlanFolder files;
  const std::string platform =
      files.folder.file("platform.yaml",
                        "format: trireme-platform/1\n"
                        "ranks: [{memory_bytes: 14, speed: 2}, {memory_bytes: 99}]\n");

  EXPECT_EQ(files.step_of("--solver rotor --platform " + platform), 14.5);
  EXPECT_EQ(files.step_of("--solver rotor --memory 16 --platform " + platform), 13.5);
}

TEST(PlanCommand, MovesBytesWhereThePlatformHasALink) {
  const PlanFolder files;
  const std::string platform = platform_with_link(files, 100);
  const std::string file = files.path("plan.json");

  const CommandResult result =
      files.plan("--solver offload --platform " + platform + " -o " + file);
  const json simulated =
      json::parse(run_command(kTrireme + " simulate " + file + " --chain " + files.chain +
                              " --platform " + platform + " --json")
                      .out);

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const json planned = json::parse(text_of(file));
  EXPECT_GT(simulated["ranks"][0]["moved_bytes"], 0);
  EXPECT_EQ(planned["stages"][0]["predicted"]["offloaded_bytes"],
            simulated["ranks"][0]["moved_bytes"]);
  EXPECT_EQ(planned["predicted"]["step_s"], simulated["step_s"]);
  EXPECT_LE(simulated["ranks"][0]["peak_bytes"], 15);
}

TEST(PlanCommand, MovesNothingWhereTheOffloadTierHasNoRoom) {
  const PlanFolder files;

  const json planned =
      json::parse(files.plan("--json --platform " + platform_with_link(files, 0)).out);

  EXPECT_EQ(planned["stages"][0]["predicted"]["offloaded_bytes"], 0);
  EXPECT_EQ(planned["predicted"]["step_s"], 28);  // the optimum without copies, as within 14 bytes
}

}  // namespace
}  // namespace trireme
