// `trireme check` end to end: good jobs, broken ones, and that nothing changes.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

CommandResult check(const std::string& options) {
  return run_command(kTrireme + " check " + options);
}

TEST(CheckCommand, ForecastsAGoodPlanAndWritesNothing) {
  const PlanFolder files;
  const std::string plan = files.make_plan();
  const std::set<std::string> before = files.files();

  const CommandResult result = check(plan + " --chain " + files.chain);

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("is a valid plan"));
  EXPECT_THAT(result.out, HasSubstr("step      29.0 s"));
  EXPECT_EQ(files.files(), before);
}

TEST(CheckCommand, PrintsTheForecastAsJson) {
  const PlanFolder files;

  const CommandResult result = check(files.make_plan() + " --json --chain " + files.chain);

  EXPECT_EQ(json::parse(result.out)["step_s"], 29);
}

struct Broken {
  const char* name;
  const char* file;  ///< which of the two is broken
  const char* part;  ///< and how: this ...
  const char* by;    ///< ... becomes that; nullptr: the file ends there
  const char* place;
  const char* message;
};

class BrokenFile : public testing::TestWithParam<Broken> {};

TEST_P(BrokenFile, IsNamedWithItsFault) {
  const Broken& broken = GetParam();
  const PlanFolder files;
  const std::string plan = files.make_plan();
  const std::string whole = text_of(files.path(broken.file));
  ASSERT_NE(whole.find(broken.part), std::string::npos);
  files.folder.file(broken.file, broken.by == nullptr ? whole.substr(0, whole.find(broken.part))
                                                      : replaced(whole, broken.part, broken.by));
  const std::set<std::string> before = files.files();

  for (const std::string command : {"check", "simulate"}) {
    const CommandResult result =
        run_command(kTrireme + " " + command + " " + plan + " --chain " + files.chain);

    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.errors, HasSubstr(broken.place));
    EXPECT_THAT(result.errors, HasSubstr(broken.message));
  }
  EXPECT_EQ(files.files(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Files, BrokenFile,
    testing::Values(Broken{"ChainCutInHalf", "chain.yaml", "output_bytes: 2, tape_bytes: 5",
                           nullptr, "chain.yaml:7", "a bracket is not closed"},
                    Broken{"NegativeSize", "chain.yaml", "tape_bytes: 5", "tape_bytes: -5",
                           "chain.yaml:7: layer 3 (c).tape_bytes", "-5"},
                    Broken{"NotANumber", "chain.yaml", "forward_s: 1", "forward_s: .nan",
                           "chain.yaml:7: layer 3 (c).forward_s", ".nan"},
                    Broken{"PlanForAnotherChain", "chain.yaml", "tape_bytes: 5", "tape_bytes: 6",
                           "plan.json", "the plan was made for chain 'chain A'"},
                    Broken{"ActionsOutOfOrder", "plan.json", R"(["backward", 5], ["backward", 4])",
                           R"(["backward", 4], ["backward", 5])", "plan.json", "0:backward 4"},
                    Broken{"PlanCutInHalf", "plan.json", "\"backward\"", nullptr, "plan.json", ""},
                    Broken{"ActionLeftOut", "plan.json", R"(["forward_tape", 1], )", "",
                           "plan.json", "tape 1 is not held"},
                    Broken{"UnknownKey", "plan.json", "\"solver\"", "\"slover\"", "plan.json",
                           "did you mean 'solver'?"}),
    [](const auto& test) { return test.param.name; });

TEST(CheckCommand, SaysThatAPlanDoesNotFit) {
  const PlanFolder files;
  const std::string plan = files.make_plan();
  files.folder.file("plan.json",
                    replaced(text_of(plan), "\"budget_bytes\": 14", "\"budget_bytes\": 13"));

  const CommandResult result = check(plan + " --json --chain " + files.chain);

  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(json::parse(result.out)["infeasible"]["least_budget_bytes"], 14);
}

TEST(CheckCommand, WantsAChainBesideAPlan) {
  const PlanFolder files;

  const CommandResult result = check(files.make_plan());

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("--chain chain.yaml"));
}

TEST(CheckCommand, SumsUpAChain) {
  const PlanFolder files;

  const CommandResult result = check(files.chain + " --json");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(json::parse(result.out)["keep_all_bytes"], 18);
  EXPECT_EQ(json::parse(result.out)["ideal_s"], 26);
}

TEST(CheckCommand, ReadsAPlatform) {
  const PlanFolder files;
  const std::string platform = files.folder.file(
      "platform.yaml", "format: trireme-platform/1\nranks: [{memory_bytes: 14}]\n");

  EXPECT_EQ(json::parse(check(platform + " --json").out)["ranks"], 1);
}

TEST(CheckCommand, WritesAJobOutInFull) {
  const PlanFolder files;
  const std::string job = files.folder.file("job.yaml", "model: {kind: mlp}\n");

  const CommandResult yaml = check(job + " --resolved --set train.batch=64");
  const CommandResult as_json = check(job + " --resolved --set train.batch=64 --json");

  EXPECT_EQ(yaml.exit_code, 0) << yaml.errors;
  EXPECT_THAT(yaml.out, HasSubstr("batch: 64"));
  EXPECT_EQ(json::parse(as_json.out)["job"], yaml.out);
  EXPECT_EQ(json::parse(as_json.out)["micro_batches"], 16);
}

// The file is read once for its kind and once for its content.
TEST(CheckCommand, RefusesWhatCanBeReadOnlyOnce) {
  const CommandResult piped = check("/dev/stdin --resolved < /dev/null");

  EXPECT_EQ(piped.exit_code, 2);
  EXPECT_THAT(piped.errors, HasSubstr("/dev/stdin: is a pipe or the like, must be a file"));
}

// Values of options stand before and after the file.
TEST(CheckCommand, TakesNoValueOfAnOptionForItsFile) {
  const PlanFolder files;
  const std::string platform = files.folder.file(
      "platform.yaml", "format: trireme-platform/1\nranks: [{memory_bytes: 14}]\n");
  const std::string plan = files.make_plan();

  for (const std::string& options :
       {plan + " --platform " + platform + " --chain " + files.chain,
        "--platform " + platform + " --chain=" + files.chain + " " + plan,
        "--json --chain " + files.chain + " " + plan}) {
    const CommandResult result = check(options);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("plan.json is a valid plan")) << options;
  }
  EXPECT_THAT(check("--set a.b=1 " + files.chain).errors,
              HasSubstr("--set: is only for a job, leave it out here"));
  const CommandResult unknown = check(files.chain + " --ranks 2");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("there is no option --ranks"));
}

TEST(CheckCommand, RefusesOptionsOfOtherKinds) {
  const PlanFolder files;
  const std::string job = files.folder.file("job.yaml", "model: {kind: mlp}\n");

  EXPECT_EQ(check(files.chain + " --chain " + files.chain).exit_code, 2);
  EXPECT_EQ(check(files.make_plan() + " --set a.b=1 --chain " + files.chain).exit_code, 2);
  EXPECT_EQ(check(files.chain + " --set a.b=1").exit_code, 2);
  EXPECT_EQ(check(files.chain + " --resolved").exit_code, 2);
}

}  // namespace
}  // namespace trireme
