// `trireme plan` end to end.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include "trireme/solve/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Known {
  int memory;
  double time;
};

class KnownTimes : public testing::TestWithParam<Known> {};

TEST_P(KnownTimes, AreFound) {
  const PlanFolder files;

  EXPECT_EQ(files.step_of("--solver rotor --memory " + std::to_string(GetParam().memory)),
            GetParam().time);
}

INSTANTIATE_TEST_SUITE_P(ChainA, KnownTimes,
                         testing::Values(Known{10, 34}, Known{11, 32}, Known{12, 31}, Known{14, 29},
                                         Known{16, 27}, Known{18, 26}),
                         [](const auto& test) { return std::to_string(test.param.memory); });

TEST(PlanCommand, PrintsTimeBytesAndProgram) {
  const PlanFolder files;

  const CommandResult result = files.plan("--memory 14 --solver rotor");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out,
              HasSubstr("29.0 s per step, +11.5 % over the ideal 26.0 s (no waits, no "
                        "recomputation)\nrecompute 3.00 s per step, summed over ranks"));
  EXPECT_THAT(result.out, HasSubstr("peak      14 B of 14 B"));
  EXPECT_THAT(result.out, HasSubstr("kept      10 B"));
  EXPECT_THAT(result.out, HasSubstr("forward   forward_keep 1, forward_tape 2, forward_keep 3, "
                                    "forward_tape 4, forward_tape 5\n"));
  EXPECT_THAT(result.out, HasSubstr("backward  backward 5, backward 4, forward_tape 3, backward 3, "
                                    "backward 2, forward_tape 1, backward 1\n"));
}

// A single stage has only one cut.
TEST(PlanCommand, ShowsEveryPolicyOfOneStageOnce) {
  const PlanFolder files;

  const CommandResult result = files.plan("--memory 16 --solver joint");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("\nrecompute_all "));
  EXPECT_THAT(result.out, Not(HasSubstr(" cut ")));
}

TEST(PlanCommand, TakesStaticBytesOutOfTheMemory) {
  const PlanFolder files;
  files.folder.file("chain.yaml", replaced(chain_a_text(), "tape_bytes: 4,",
                                           "tape_bytes: 4, parameter_bytes: 3, gradient_bytes: 3, "
                                           "optimizer_bytes: 6,"));

  const CommandResult result = files.plan("--memory 26 --solver rotor");

  EXPECT_THAT(result.out, HasSubstr("time      29.0 s per step"));
  EXPECT_THAT(result.out, HasSubstr("peak      26 B of 26 B"));
  EXPECT_THAT(result.out, HasSubstr("static    12 B"));
}

TEST(PlanCommand, MultipliesByMicroBatches) {
  const PlanFolder files;

  EXPECT_EQ(files.step_of("--memory 14 --solver rotor --micro-batches 4"), 4 * 29);
}

TEST(PlanCommand, WritesThePlanThatItPrints) {
  const PlanFolder files;

  const CommandResult result = files.plan("--memory 14 --json -o " + files.path("plan.json") +
                                          " --report " + files.path("plan.html"));

  EXPECT_EQ(text_of(files.path("plan.json")), result.out);
  EXPECT_THAT(text_of(files.path("plan.html")), HasSubstr("Plan for chain A"));
}

TEST(PlanCommand, PredictsWhatTheSimulatorSays) {
  const PlanFolder files;
  const std::string file = files.make_plan();

  const json simulated = json::parse(
      run_command(kTrireme + " simulate " + file + " --chain " + files.chain + " --json").out);

  const json planned = json::parse(text_of(file));
  EXPECT_EQ(planned["predicted"]["step_s"], simulated["step_s"]);
  EXPECT_EQ(planned["stages"][0]["predicted"]["peak_bytes"], simulated["ranks"][0]["peak_bytes"]);
}

TEST(PlanCommand, TakesTheFastestWhenNobodyIsNamed) {
  const PlanFolder files;

  // If the inputs that tapes hold may be offloaded, 28 s is the optimum over all programs
  // (exhaustive search).
  EXPECT_EQ(files.step_of("--memory 14"), 28);
}

TEST(PlanCommand, TellsWhatTheOthersWouldCost) {
  const PlanFolder files;

  const json plan_file = json::parse(files.plan("--memory 14 --json --solver rotor").out);

  std::map<std::string, json> others;
  for (const json& other : plan_file["alternatives"]) others[other["policy"]] = other;
  EXPECT_EQ(others.count("rotor"), 0U);
  // Every layer but the loss runs its forward twice, the last one too: 26 + 10.
  EXPECT_EQ(others["recompute_all"]["step_s"], 36);
  EXPECT_EQ(others["keep_all"]["infeasible"]["least_budget_bytes"], 18);
}

TEST(PlanCommand, SaysThatItTookWhatKeepAllNeeds) {
  const PlanFolder files;

  const CommandResult result = files.plan("");

  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.errors, HasSubstr("no memory given: taking what keep_all needs, 18 B"));
  EXPECT_THAT(result.out, HasSubstr("26.0 s per step"));
}

TEST(PlanCommand, ComparesAllSolvers) {
  const PlanFolder files;

  const CommandResult result = files.plan("--memory 14 --solver all");

  EXPECT_EQ(result.exit_code, 0);
  for (const std::string& solver : solve::solver_names())
    EXPECT_THAT(result.out, HasSubstr("\n" + solver + " "));
  EXPECT_THAT(result.out, testing::ContainsRegex("rotor +29.0 s +\\+11.5 % +14 B +3.00 s +0 B"));
  EXPECT_THAT(result.out, testing::ContainsRegex("keep_all +- .* 18 B\n"));
}

// A single stage has no bubble to fill, whatever is asked for.
TEST(PlanCommand, HoldsOneMicroBatchAtATimeOnOneStage) {
  const PlanFolder files;
  for (const std::string solver : {"auto", "joint", "adapipe"}) {
    const std::string options = "--memory 18 --micro-batches 4 --solver " + solver;
    EXPECT_EQ(files.step_of(options + " --schedule gpipe"), files.step_of(options)) << solver;
  }
}

TEST(PlanCommand, ComparesSolversAlsoUnderGpipe) {
  const PlanFolder files;
  const std::string options = "--memory 18 --micro-batches 2 --solver all";

  const CommandResult result = files.plan(options + " --schedule gpipe");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, testing::ContainsRegex("keep_all +[0-9.]+ s .* 18 B"));
}

TEST(PlanCommand, FailsWhereItsAnswerDoesNotArrive) {
  const PlanFolder files;
  const CommandResult result = files.plan("--memory 18 --json > /dev/full");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("standard output"));
}

class LeastBudget : public testing::TestWithParam<std::string> {};

TEST_P(LeastBudget, WorksAndNothingLessDoes) {
  const PlanFolder files;
  const std::string solver = " --solver " + GetParam() + " --memory ";

  const CommandResult without = files.plan("--json" + solver + "1");
  ASSERT_EQ(without.exit_code, 3);
  const json why = json::parse(without.out)["infeasible"];
  const std::int64_t least = why["least_budget_bytes"];

  EXPECT_EQ(why["available_bytes"], 1);
  EXPECT_EQ(files.plan(solver + std::to_string(least)).exit_code, 0);
  EXPECT_EQ(files.plan(solver + std::to_string(least - 1)).exit_code, 3);
  EXPECT_THAT(without.errors,
              HasSubstr("the smallest budget that works is " + std::to_string(least) + " B"));
}

INSTANTIATE_TEST_SUITE_P(Solvers, LeastBudget,
                         testing::Values("keep_all", "recompute_all", "periodic", "sqrt", "revolve",
                                         "min_peak", "rotor", "rotor_free", "capuchin", "offload",
                                         "pofo", "auto", "all"),
                         [](const auto& test) { return test.param; });

struct WrongUse {
  const char* name;
  const char* options;
  const char* message;
};

class PlanWrongUse : public testing::TestWithParam<WrongUse> {};

TEST_P(PlanWrongUse, ExitsWith2AndWritesNothing) {
  const PlanFolder files;

  const CommandResult result =
      files.plan(std::string(GetParam().options) + " -o " + files.path("plan.json"));

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.errors, HasSubstr(GetParam().message));
  EXPECT_EQ(files.files(), std::set<std::string>{"chain.yaml"});
}

INSTANTIATE_TEST_SUITE_P(
    Options, PlanWrongUse,
    testing::Values(
        WrongUse{"Stages", "--stages 6",
                 "trireme: --stages: found 6, but the chain has 5 layers and every stage needs "
                 "one; use 1 to 5\n"},
        WrongUse{"ABillionStages", "--stages 1000000000", "the chain has 5 layers"},
        WrongUse{"ShortCut", "--stages 3 --cut 2", "trireme: --cut: has 1 entries, must have 2"},
        WrongUse{"CutBeyondTheChain", "--stages 3 --cut 2,5",
                 "trireme: --cut: found layer 5, expected ascending layers within 3..4"},
        WrongUse{"CutOfOneStage", "--cut 2", "trireme: --cut: has 1 entries, must have 0"},
        WrongUse{"Solver", "--solver rotr", "did you mean 'rotor'?"},
        WrongUse{"Argument", "--solver 'periodic x'", "expected 'periodic k'"},
        WrongUse{"Memory", "--memory 12GX", "must be a size such as 12GiB"},
        WrongUse{"Negative", "--memory=-5", "must be a size such as 12GiB"},
        WrongUse{"Slots", "--slots -1 --solver rotor",
                 "trireme: --slots: found -1, expected 0 (exact)"},
        WrongUse{"SlotsOfStages", "--slots -1 --stages 2 --memory 20",
                 "trireme: --slots: found -1, expected 0 (exact)"},
        WrongUse{"MicroBatches", "--micro-batches 0", "--micro-batches"},
        WrongUse{"LargeGroup", "--micro-batches 4 --group 5",
                 "trireme: --group: found 5, expected 1 to 4"},
        WrongUse{"NoGroup", "--group 0", "--group"}, WrongUse{"Unknown", "--memroy 12", "--memroy"},
        // What `offload` was once called.
        WrongUse{"OuterOptimizer", "--optimizer outer",
                 "--optimizer: outer not in {auto,device,offload}"},
        WrongUse{"OuterWeights", "--weights outer",
                 "--weights: outer not in {auto,device,offload}"},
        WrongUse{"Platform", "--platform /no/such.yaml", "/no/such.yaml"},
        WrongUse{"CsvAlone", "--csv a.csv", "--csv requires --sweep"}),
    [](const auto& test) { return test.param.name; });

TEST(PlanCommand, RefusesAFolderToWriteTo) {
  const PlanFolder files;

  const CommandResult result = files.plan("--memory 14 -o " + files.folder.path().string());

  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("it is a folder"));
}

TEST(PlanCommand, RefusesOneFileForTwoAnswers) {
  const PlanFolder files;
  const std::string twice = "--memory 14 -o " + files.path("x") + " --report " + files.path("./x");
  EXPECT_EQ(files.plan(twice).exit_code, 2);
  EXPECT_THAT(files.plan(twice).errors, HasSubstr(" does: give each a file of its own"));
}

TEST(PlanCommand, DoesNotWriteOverItsChain) {
  const PlanFolder files;
  const CommandResult result = files.plan("--memory 14 -o " + files.path("chain.yaml"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("as --chain does: give each a file of its own"));
}

TEST(PlanCommand, HelpsWithAnExample) {
  for (const std::string command : {"plan", "simulate", "check"}) {
    const CommandResult result = run_command(kTrireme + " " + command + " --help");
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, testing::ContainsRegex("Examples?:\n  trireme " + command));
  }
  const std::string check = run_command(kTrireme + " check --help").out;
  EXPECT_THAT(check, HasSubstr("--ranks"));
  EXPECT_THAT(check, HasSubstr("runs/.profiles"));
}

}  // namespace
}  // namespace trireme
