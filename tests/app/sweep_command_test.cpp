// `trireme plan --sweep` end to end.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

CommandResult sweep(const PlanFolder& files, const std::string& options) {
  return run_command(kTrireme + " plan --chain " + files.chain + " " + options);
}

TEST(SweepCommand, GoesFromTheLeastThatWorksToKeepAll) {
  const PlanFolder files;

  const json document = json::parse(sweep(files, "--sweep 9 --json").out);

  std::map<std::int64_t, std::map<std::string, double>> times;  // by budget
  for (const json& point : document["points"]) {
    if (point.contains("step_s")) times[point["budget_bytes"]][point["solver"]] = point["step_s"];
  }
  EXPECT_EQ(times.begin()->first, 10);
  EXPECT_EQ(times.rbegin()->first, 18);
  EXPECT_EQ(times.size(), 9U);
  EXPECT_EQ(times[18]["keep_all"], 26);
  // As published for every budget, see KnownTimes.
  EXPECT_EQ(times[10]["rotor"], 34);
  EXPECT_EQ(times[12]["rotor"], 31);
  EXPECT_EQ(times[17]["rotor"], 27);
  EXPECT_EQ(times[10].count("keep_all"), 0U);
}

TEST(SweepCommand, WritesNumbersAndAPicture) {
  const PlanFolder files;

  const CommandResult result =
      sweep(files, "--sweep 3 --csv " + files.path("s.csv") + " --plot " + files.path("s.html"));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(text_of(files.path("s.csv")), HasSubstr("\n14,rotor,29,"));
  EXPECT_THAT(text_of(files.path("s.html")), HasSubstr("<svg "));
  EXPECT_THAT(result.out, HasSubstr("from 10 B to 18 B"));
}

TEST(SweepCommand, PrintsTheNumbersWhereNoFileIsGiven) {
  const PlanFolder files;

  EXPECT_THAT(sweep(files, "--sweep 2 --solver rotor").out,
              testing::AllOf(testing::StartsWith("budget_bytes,solver,step_s"),
                             HasSubstr("\n10,rotor,34,"), HasSubstr("\n18,rotor,26,")));
}

TEST(SweepCommand, HasNoMoreBudgetsThanBytes) {
  const PlanFolder files;

  const json document = json::parse(sweep(files, "--sweep 100 --solver rotor --json").out);

  EXPECT_EQ(document["points"].size(), 9U);
}

TEST(SweepCommand, ExcludesWhatIsForOnePlan) {
  const PlanFolder files;

  for (const std::string option : {"--memory 14", "-o plan.json", "--report plan.html"})
    EXPECT_EQ(sweep(files, "--sweep 3 " + option).exit_code, 2) << option;
  EXPECT_EQ(sweep(files, "--sweep 1").exit_code, 2);
  EXPECT_THAT(sweep(files, "--sweep 3 --solver joint").errors,
              HasSubstr("--solver joint plans several"));
  EXPECT_THAT(sweep(files, "--sweep 3 --solver rotr").errors, HasSubstr("did you mean 'rotor'?"));
}

TEST(SweepCommand, TakesASolverWithAnArgument) {
  const PlanFolder files;

  const CommandResult result = sweep(files, "--sweep 3 --solver 'periodic 2'");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("periodic 2"));
}

}  // namespace
}  // namespace trireme
