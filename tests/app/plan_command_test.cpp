// `trireme plan` as a user meets it.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include "trireme/solve/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

CommandResult plan(const PlanFolder& files, const std::string& options) {
  return run_command(kTrireme + " plan --chain " + files.chain + " " + options);
}

double step_of(const PlanFolder& files, const std::string& options) {
  return json::parse(plan(files, options + " --json").out)["predicted"]["step_s"];
}

struct Known {
  int memory;
  double time;
};

class KnownTimes : public testing::TestWithParam<Known> {};

TEST_P(KnownTimes, AreFound) {
  const PlanFolder files;

  EXPECT_EQ(step_of(files, "--solver rotor --memory " + std::to_string(GetParam().memory)),
            GetParam().time);
}

INSTANTIATE_TEST_SUITE_P(ChainA, KnownTimes,
                         testing::Values(Known{10, 34}, Known{11, 32}, Known{12, 31}, Known{14, 29},
                                         Known{16, 27}, Known{18, 26}),
                         [](const auto& test) { return std::to_string(test.param.memory); });

TEST(PlanCommand, PrintsTimeBytesAndProgram) {
  const PlanFolder files;

  const CommandResult result = plan(files, "--memory 14 --solver rotor");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("29.0 s per step; ideal 26.0 s (+11.5 %); recompute 3.00 s"));
  EXPECT_THAT(result.out, HasSubstr("peak      14 B of 14 B"));
  EXPECT_THAT(result.out, HasSubstr("kept      10 B"));
  EXPECT_THAT(result.out, HasSubstr("forward   forward_keep 1, forward_tape 2, forward_keep 3, "
                                    "forward_tape 4, forward_tape 5\n"));
  EXPECT_THAT(result.out, HasSubstr("backward  backward 5, backward 4, forward_tape 3, backward 3, "
                                    "backward 2, forward_tape 1, backward 1\n"));
}

TEST(PlanCommand, TakesStaticBytesOutOfTheMemory) {
  const PlanFolder files;
  files.folder.file("chain.yaml", replaced(chain_a_text(), "tape_bytes: 4,",
                                           "tape_bytes: 4, parameter_bytes: 3, gradient_bytes: 3, "
                                           "optimizer_bytes: 6,"));

  const CommandResult result = plan(files, "--memory 26 --solver rotor");

  EXPECT_THAT(result.out, HasSubstr("time      29.0 s per step"));
  EXPECT_THAT(result.out, HasSubstr("peak      26 B of 26 B"));
  EXPECT_THAT(result.out, HasSubstr("static    12 B"));
}

TEST(PlanCommand, HasOptimizerStateAwayWhereThatFits) {
  const PlanFolder files;
  files.folder.file("chain.yaml", replaced(chain_a_text(), "tape_bytes: 4,",
                                           "tape_bytes: 4, optimizer_bytes: 6,"));
  files.folder.file("platform.yaml",
                    "format: trireme-platform/1\nranks:\n  - {memory_bytes: 14, host_bytes: 100, "
                    "out_bytes_per_s: 2, in_bytes_per_s: 4}\n");
  const std::string platform = " --platform " + files.path("platform.yaml");

  EXPECT_EQ(plan(files, "--solver rotor --optimizer device" + platform).exit_code, 3);
  const CommandResult result = plan(files, "--solver rotor -o " + files.path("p.json") + platform);

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  // As without the state, and 6 bytes at 2 bytes per second.
  EXPECT_THAT(result.out, HasSubstr("time      32.0 s per step; ideal 26.0 s"));
  EXPECT_THAT(result.out, HasSubstr("away      6 B of the optimizer's state"));
  const CommandResult looked = run_command(kTrireme + " simulate " + files.path("p.json") +
                                           " --chain " + files.chain + platform);
  EXPECT_EQ(looked.exit_code, 0) << looked.errors;
  EXPECT_THAT(looked.out, HasSubstr("step      32.0 s"));
  // Its rates are not in the plan.
  EXPECT_EQ(run_command(kTrireme + " simulate " + files.path("p.json") + " --chain " + files.chain)
                .exit_code,
            2);
}

// 10 bytes of frozen weights of each of four layers, which take 40 seconds to come.
TEST(PlanCommand, GroupsMicroBatchesWhereWeightsComeForEveryUse) {
  const PlanFolder files;
  std::string chain = chain_a_text();
  for (const char* tape : {"tape_bytes: 4,", "tape_bytes: 3,", "tape_bytes: 5,", "tape_bytes: 2,"})
    chain = replaced(chain, tape, std::string(tape) + " parameter_bytes: 10, frozen_bytes: 10,");
  files.folder.file("chain.yaml", chain);
  files.folder.file("platform.yaml",
                    "format: trireme-platform/1\nranks:\n  - {memory_bytes: 58, host_bytes: 100, "
                    "out_bytes_per_s: 0.25, in_bytes_per_s: 0.25}\n");
  const std::string options = "--solver rotor --weights outer --micro-batches 4 --platform " +
                              files.path("platform.yaml") + " ";
  const CommandResult result = plan(files, options + "-o " + files.path("p.json"));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("4 micro-batches per step, in groups of 4, one stage"));
  EXPECT_THAT(result.out, HasSubstr("micro-batches one by one"));
  EXPECT_LT(step_of(files, options), 0.6 * step_of(files, options + "--group 1"));
  const CommandResult looked =
      run_command(kTrireme + " simulate " + files.path("p.json") + " --chain " + files.chain +
                  " --platform " + files.path("platform.yaml") + " --json");
  ASSERT_EQ(looked.exit_code, 0) << looked.errors;
  const json simulated = json::parse(looked.out);
  EXPECT_EQ(simulated["group"], 4);
  EXPECT_EQ(simulated["step_s"], step_of(files, options));
}

TEST(PlanCommand, MultipliesByMicroBatches) {
  const PlanFolder files;

  EXPECT_EQ(step_of(files, "--memory 14 --solver rotor --micro-batches 4"), 4 * 29);
}

TEST(PlanCommand, WritesThePlanThatItPrints) {
  const PlanFolder files;

  const CommandResult result = plan(files, "--memory 14 --json -o " + files.path("plan.json") +
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

  // With inputs of tapes free to leave, 28 s is the optimum over all programs (exhaustive search).
  EXPECT_EQ(step_of(files, "--memory 14"), 28);
}

TEST(PlanCommand, TellsWhatTheOthersWouldCost) {
  const PlanFolder files;

  const json plan_file = json::parse(plan(files, "--memory 14 --json --solver rotor").out);

  std::map<std::string, json> others;
  for (const json& other : plan_file["alternatives"]) others[other["policy"]] = other;
  EXPECT_EQ(others.count("rotor"), 0U);
  // Every layer but the loss runs its forward twice, the last one too: 26 + 10.
  EXPECT_EQ(others["recompute_all"]["step_s"], 36);
  EXPECT_EQ(others["keep_all"]["infeasible"]["least_budget_bytes"], 18);
}

TEST(PlanCommand, SaysThatItTookWhatKeepAllNeeds) {
  const PlanFolder files;

  const CommandResult result = plan(files, "");

  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.errors, HasSubstr("no memory given: taking what keep_all needs, 18 B"));
  EXPECT_THAT(result.out, HasSubstr("26.0 s per step"));
}

TEST(PlanCommand, ComparesAllSolvers) {
  const PlanFolder files;

  const CommandResult result = plan(files, "--memory 14 --solver all");

  EXPECT_EQ(result.exit_code, 0);
  for (const std::string& solver : solve::solver_names())
    EXPECT_THAT(result.out, HasSubstr("\n" + solver + " "));
  EXPECT_THAT(result.out, testing::ContainsRegex("rotor +29.0 s +\\+11.5 % +14 B +3.00 s +0 B"));
  EXPECT_THAT(result.out, testing::ContainsRegex("keep_all +- .* 18 B\n"));
}

// Without state in the outer tier nothing fits.
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
  EXPECT_EQ(run_command(kTrireme + " plan" + files + " --optimizer device").exit_code, 3);
}

// One stage waits for nobody, whatever is asked for.
TEST(PlanCommand, HoldsOneMicroBatchAtATimeOnOneStage) {
  const PlanFolder files;
  for (const std::string solver : {"auto", "joint", "adapipe"}) {
    const std::string options = "--memory 18 --micro-batches 4 --solver " + solver;
    EXPECT_EQ(step_of(files, options + " --schedule gpipe"), step_of(files, options)) << solver;
  }
}

TEST(PlanCommand, ComparesSolversAlsoUnderGpipe) {
  const PlanFolder files;
  const std::string options = "--memory 18 --micro-batches 2 --solver all";

  const CommandResult result = plan(files, options + " --schedule gpipe");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, testing::ContainsRegex("keep_all +[0-9.]+ s .* 18 B"));
}

TEST(PlanCommand, WantsAnOuterTierForWhatIsToLieThere) {
  const PlanFolder files;
  for (const std::string option : {"--optimizer", "--weights"}) {
    const CommandResult result = plan(files, "--memory 18 " + option + " outer");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, HasSubstr(option + ": is outer, but no rank has an outer tier"));
  }
}

TEST(PlanCommand, FailsWhereItsAnswerDoesNotArrive) {
  const PlanFolder files;
  const CommandResult result = plan(files, "--memory 18 --json > /dev/full");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("standard output"));
}

TEST(PlanCommand, TakesAnOuterTierThatIsOnlyReadForWeights) {
  const PlanFolder files;
  const std::string with =
      " --platform " + files.folder.file("platform.yaml",
                                         "format: trireme-platform/1\n"
                                         "ranks:\n  - {memory_bytes: 18, host_bytes: 1KiB, "
                                         "in_bytes_per_s: 10}\n");
  EXPECT_EQ(plan(files, with + " --weights outer").exit_code, 0);
  const CommandResult result = plan(files, with + " --optimizer outer");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("no rank has an outer tier"));
}

class LeastBudget : public testing::TestWithParam<std::string> {};

TEST_P(LeastBudget, WorksAndNothingLessDoes) {
  const PlanFolder files;
  const std::string solver = " --solver " + GetParam() + " --memory ";

  const CommandResult without = plan(files, "--json" + solver + "1");
  ASSERT_EQ(without.exit_code, 3);
  const json why = json::parse(without.out)["infeasible"];
  const std::int64_t least = why["least_budget_bytes"];

  EXPECT_EQ(why["available_bytes"], 1);
  EXPECT_EQ(plan(files, solver + std::to_string(least)).exit_code, 0);
  EXPECT_EQ(plan(files, solver + std::to_string(least - 1)).exit_code, 3);
  EXPECT_THAT(without.errors,
              HasSubstr("the smallest budget that works is " + std::to_string(least) + " B"));
}

INSTANTIATE_TEST_SUITE_P(Solvers, LeastBudget,
                         testing::Values("keep_all", "recompute_all", "periodic", "sqrt", "revolve",
                                         "min_peak", "rotor", "rotor_free", "capuchin", "offload",
                                         "pofo", "auto", "all"),
                         [](const auto& test) { return test.param; });

TEST(PlanCommand, PlansForTheFirstRankOfAPlatform) {
  const PlanFolder files;
  const std::string platform =
      files.folder.file("platform.yaml",
                        "format: trireme-platform/1\n"
                        "ranks: [{memory_bytes: 14, speed: 2}, {memory_bytes: 99}]\n");

  EXPECT_EQ(step_of(files, "--solver rotor --platform " + platform), 14.5);
  EXPECT_EQ(step_of(files, "--solver rotor --memory 16 --platform " + platform), 13.5);
}

std::string platform_with_link(const PlanFolder& files, int host_bytes) {
  return files.folder.file("platform.yaml",
                           "format: trireme-platform/1\n"
                           "ranks: [{memory_bytes: 15, host_bytes: " +
                               std::to_string(host_bytes) +
                               ", out_bytes_per_s: 1, in_bytes_per_s: 1}]\n");
}

TEST(PlanCommand, MovesBytesWhereThePlatformHasALink) {
  const PlanFolder files;
  const std::string platform = platform_with_link(files, 100);
  const std::string file = files.path("plan.json");

  const CommandResult result =
      plan(files, "--solver offload --platform " + platform + " -o " + file);
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

TEST(PlanCommand, MovesNothingWhereTheOuterTierHasNoRoom) {
  const PlanFolder files;

  const json planned =
      json::parse(plan(files, "--json --platform " + platform_with_link(files, 0)).out);

  EXPECT_EQ(planned["stages"][0]["predicted"]["offloaded_bytes"], 0);
  EXPECT_EQ(planned["predicted"]["step_s"], 28);  // the optimum without copies, as within 14 bytes
}

struct WrongUse {
  const char* name;
  const char* options;
  const char* message;
};

class PlanWrongUse : public testing::TestWithParam<WrongUse> {};

TEST_P(PlanWrongUse, ExitsWith2AndWritesNothing) {
  const PlanFolder files;

  const CommandResult result =
      plan(files, std::string(GetParam().options) + " -o " + files.path("plan.json"));

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.errors, HasSubstr(GetParam().message));
  EXPECT_EQ(files.files(), std::set<std::string>{"chain.yaml"});
}

INSTANTIATE_TEST_SUITE_P(
    Options, PlanWrongUse,
    testing::Values(
        WrongUse{"Stages", "--stages 6", "the chain has 5 layers and every stage needs one"},
        WrongUse{"ABillionStages", "--stages 1000000000", "the chain has 5 layers"},
        WrongUse{"Solver", "--solver rotr", "did you mean 'rotor'?"},
        WrongUse{"Argument", "--solver 'periodic x'", "expected 'periodic k'"},
        WrongUse{"Memory", "--memory 12GX", "must be a size such as 12GiB"},
        WrongUse{"Negative", "--memory=-5", "must be a size such as 12GiB"},
        WrongUse{"Slots", "--slots -1", "expected 0 (exact)"},
        WrongUse{"MicroBatches", "--micro-batches 0", "--micro-batches"},
        WrongUse{"LargeGroup", "--micro-batches 4 --group 5", "group: found 5, expected 1 to 4"},
        WrongUse{"NoGroup", "--group 0", "--group"}, WrongUse{"Unknown", "--memroy 12", "--memroy"},
        WrongUse{"Platform", "--platform /no/such.yaml", "/no/such.yaml"},
        WrongUse{"CsvAlone", "--csv a.csv", "--csv requires --sweep"}),
    [](const auto& test) { return test.param.name; });

TEST(PlanCommand, RefusesAFolderToWriteTo) {
  const PlanFolder files;

  const CommandResult result = plan(files, "--memory 14 -o " + files.folder.path().string());

  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("it is a folder"));
}

TEST(PlanCommand, RefusesOneFileForTwoAnswers) {
  const PlanFolder files;
  const std::string twice = "--memory 14 -o " + files.path("x") + " --report " + files.path("./x");
  EXPECT_EQ(plan(files, twice).exit_code, 2);
  EXPECT_THAT(plan(files, twice).errors, HasSubstr(" does: give each a file of its own"));
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
