// `trireme plan` for energy and deadlines, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

/// A card that computes at 10 W, waits at 1 W, copies a byte a second, and has two slower clocks.
std::string card(const PlanFolder& files) {
  return " --platform " +
         files.folder.file("card.yaml",
                           "format: trireme-platform/1\n"
                           "ranks:\n"
                           "  - {memory_bytes: 14, host_bytes: 50, out_bytes_per_s: 1,\n"
                           "     in_bytes_per_s: 1, busy_w: 10, idle_w: 1, copy_out_w: 1,\n"
                           "     copy_in_w: 1, clocks: [{name: half, time: 2, power: 0.3}]}\n") +
         " ";
}

json predicted(const CommandResult& result) {
  return json::parse(result.out)["predicted"];
}

TEST(PlanCommand, TakesLeastEnergyByADeadline) {
  const PlanFolder files;
  const json fastest = predicted(files.plan(card(files) + "--json"));
  const json in_time =
      predicted(files.plan(card(files) + "--objective energy --deadline 1.5x --json"));
  const json any_time = predicted(files.plan(card(files) + "--objective energy --json"));

  EXPECT_LE(in_time["step_s"].get<double>(), 1.5 * fastest["step_s"].get<double>());
  EXPECT_LT(in_time["energy_j"], fastest["energy_j"]);
  // At the slower clock all passes without recomputation, 26 seconds, take 52 at 3 W.
  EXPECT_LT(any_time["energy_j"], in_time["energy_j"]);
  EXPECT_GE(any_time["step_s"], 52);
}

TEST(PlanCommand, WritesClocksThatSimulateReads) {
  const PlanFolder files;
  const std::string platform = card(files);
  const CommandResult result =
      files.plan(platform + "--objective energy -o " + files.path("p.json") + " --report " +
                 files.path("p.html"));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("clocks    half forward, half backward"), HasSubstr("least time")));
  EXPECT_THAT(text_of(files.path("p.html")),
              AllOf(HasSubstr("clocks: half forward, half backward"), HasSubstr(">energy<")));

  const std::string simulate =
      kTrireme + " simulate " + files.path("p.json") + " --chain " + files.chain;
  const json plan = json::parse(text_of(files.path("p.json")))["predicted"];
  const json again = json::parse(run_command(simulate + platform + "--json").out);
  EXPECT_EQ(again["step_s"], plan["step_s"]);
  EXPECT_EQ(again["energy_j"]["all"], plan["energy_j"]);
  const CommandResult other = run_command(simulate);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("the plan has the clock 'half', which the platform does not "
                                      "name: give the platform that the plan was made for"));
}

TEST(PlanCommand, SaysTheLeastDeadlineAndABudgetWhereAStepIsLate) {
  const PlanFolder files;
  const CommandResult late = files.plan("--memory 14 --solver rotor --deadline 27s");
  EXPECT_EQ(late.exit_code, 3);
  EXPECT_EQ(late.errors,
            "trireme: --deadline is 27s, but the fastest step found in 14 B takes 29.0 s. Give "
            "--deadline 29s or later, or --memory 16\n");
  EXPECT_EQ(files.plan("--memory 16 --solver rotor --deadline 27s").exit_code, 0);
  // No recomputation takes 26 seconds.
  const CommandResult never = files.plan("--memory 14 --solver rotor --deadline 25s --json");
  EXPECT_EQ(never.exit_code, 3);
  EXPECT_THAT(never.errors, testing::EndsWith("Give --deadline 29s or later\n"));
  EXPECT_EQ(json::parse(never.out)["infeasible"]["least_step_s"], 29);
}

TEST(PlanCommand, PrintsTheTradeOff) {
  const PlanFolder files;
  const CommandResult csv = files.plan(card(files) + "--pareto");
  EXPECT_EQ(csv.exit_code, 0) << csv.errors;
  EXPECT_THAT(csv.out,
              testing::StartsWith("step_s,energy_j,step_ratio,energy_ratio,recompute_s,plan\n"));
  const CommandResult written = files.plan(card(files) + "--pareto --csv " + files.path("e.csv") +
                                           " --plot " + files.path("e.html"));
  EXPECT_EQ(written.exit_code, 0) << written.errors;
  EXPECT_EQ(text_of(files.path("e.csv")), csv.out);
  EXPECT_THAT(text_of(files.path("e.html")), HasSubstr("energy of a step (J)"));
}

TEST(PlanCommand, RefusesGoalsThatItCannotRead) {
  const PlanFolder files;
  const auto errors = [&](const std::string& options, int code) {
    const CommandResult result = files.plan("--memory 14 " + options);
    EXPECT_EQ(result.exit_code, code) << options;
    return result.errors;
  };
  EXPECT_THAT(errors("--deadline soon", 2),
              HasSubstr("--deadline: is 'soon', must be a time such as 120ms, a factor of the "
                        "fastest step such as 1.1x, or none"));
  EXPECT_THAT(errors("--deadline 0x", 2), HasSubstr("--deadline: is '0x'"));
  EXPECT_THAT(errors("--objective joules", 2), HasSubstr("--objective"));
  EXPECT_THAT(errors("--objective energy", 2), HasSubstr("says what energy costs"));
  EXPECT_THAT(errors("--csv a.csv", 2), HasSubstr("--sweep or --pareto"));
  EXPECT_THAT(errors("--pareto --json", 2), HasSubstr("--pareto"));
  EXPECT_THAT(errors("--pareto --solver all", 2), HasSubstr("--pareto"));
}

}  // namespace
}  // namespace trireme
