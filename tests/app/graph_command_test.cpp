// `trireme plan --graph` and `trireme simulate --graph` end to end.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace trireme {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// An input, four forward nodes and their gradients, a byte each; a forward takes a second and a
/// joule, a gradient two. POET's published solver (ICML 2022) with CBC: in 4 bytes 13 J without
/// copies, 12.5 J where a copy takes 0.25 J; in 3 bytes nothing.
std::string unit_chain() {
  std::string text =
      "format: trireme-graph/1\nname: unit chain\nnodes:\n  - {name: x0, output_bytes: 1}\n";
  const auto add = [&](const std::string& name, const std::string& inputs, int cost,
                       const std::string& more) {
    text += "  - {name: " + name + ", inputs: [" + inputs +
            "], output_bytes: 1, compute_s: " + std::to_string(cost) +
            ", compute_j: " + std::to_string(cost) + more + "}\n";
  };
  for (int k = 1; k <= 4; ++k) add("x" + std::to_string(k), "x" + std::to_string(k - 1), 1, "");
  for (int k = 3; k >= 0; --k) {
    const std::string x = "x" + std::to_string(k), next = "x" + std::to_string(k + 1);
    const std::string gradient = k == 3 ? "" : ", g" + std::to_string(k + 1);
    add("g" + std::to_string(k), x + ", " + next + gradient, 2, ", backward: true");
  }
  return text;
}

struct GraphFolder {
  TemporaryFolder folder;
  std::string graph = folder.file("graph.yaml", unit_chain());
  std::string device = folder.file(
      "device.yaml",
      "format: trireme-platform/1\n"
      "ranks: [{memory_bytes: 9, disk_bytes: 100, out_bytes_per_s: 1, in_bytes_per_s: 1,\n"
      "  copy_out_w: 0.25, copy_in_w: 0.25, copies: in_turn}]\n");

  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  std::string files() const { return " --graph " + graph + " --platform " + device + " "; }
  CommandResult plan(const std::string& options) const {
    return run_command(kTrireme + " plan" + files() + options);
  }
  CommandResult simulate(const std::string& plan, const std::string& options = "") const {
    return run_command(kTrireme + " simulate " + plan + files() + options);
  }
};

/// `poet` needs HiGHS, which a build may lack.
bool has_poet(const GraphFolder& files) {
  return files.plan("").errors.find("HiGHS") == std::string::npos;
}

TEST(PlanGraph, TakesLeastEnergyWithAndWithoutTime) {
  const GraphFolder files;
  if (!has_poet(files)) GTEST_SKIP() << "this build has no HiGHS";
  const CommandResult result = files.plan("--memory 4 --objective energy");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("graph     unit chain: 9 nodes, 5 forward and 4 backward"),
            HasSubstr("solver    poet, proven optimal"), HasSubstr("energy    12.5 J per step"),
            HasSubstr("1 copies out, 1 copies in")));
  // Two copies take a second each: recomputation is as fast and takes 13 J.
  const CommandResult fast = files.plan("--memory 4 --objective energy --deadline 1x");
  EXPECT_THAT(fast.out, HasSubstr("energy    13.0 J per step"));
}

TEST(PlanGraph, WritesAPlanAPageAndAScheduleThatAreReadBack) {
  const GraphFolder files;
  if (!has_poet(files)) GTEST_SKIP() << "this build has no HiGHS";
  const CommandResult result =
      files.plan("--memory 4 --objective energy -o " + files.path("p.json") + " --report " +
                 files.path("p.html"));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(text_of(files.path("p.html")), AllOf(HasSubstr("<svg "), HasSubstr(">12.5 J<")));
  files.plan("--memory 4 --objective energy --compact -o " + files.path("p.txt"));
  EXPECT_LT(text_of(files.path("p.txt")).size(), 100U);

  const json plan = json::parse(text_of(files.path("p.json")));
  for (const char* const file : {"p.json", "p.txt"}) {
    const json again = json::parse(files.simulate(files.path(file), "--json").out);
    EXPECT_EQ(again["energy_j"]["all"], 12.5) << file;
    EXPECT_EQ(again["step_s"], plan["predicted"]["step_s"]) << file;
    EXPECT_EQ(again["peak_bytes"], 4) << file;
  }
}

TEST(PlanGraph, SaysWhatWouldFit) {
  const GraphFolder files;
  if (!has_poet(files)) GTEST_SKIP() << "this build has no HiGHS";
  const CommandResult small = files.plan("--memory 3 --objective energy");
  EXPECT_EQ(small.exit_code, 3);
  EXPECT_THAT(small.errors, HasSubstr("Give --memory 4"));
  const CommandResult late = files.plan("--memory 4 --objective energy --deadline 11s");
  EXPECT_EQ(late.exit_code, 3);
  EXPECT_THAT(late.errors, HasSubstr("Give --deadline 13s or later"));
  EXPECT_THAT(late.errors, Not(HasSubstr("--memory 5")));  // every node once takes 12 s
  const CommandResult tight = files.plan("--memory 4 --objective energy --deadline 12s");
  EXPECT_EQ(tight.exit_code, 3);
  // In 5 bytes all but the input can be kept, which takes no time to make again.
  EXPECT_THAT(tight.errors, HasSubstr("Give --deadline 13s or later, or --memory 5"));
  for (const char* const factor : {"0.5x", "0.99x"}) {
    const CommandResult early = files.plan(std::string("--memory 4 --deadline ") + factor);
    EXPECT_EQ(early.exit_code, 3) << factor;
    EXPECT_THAT(early.errors, HasSubstr("Give --deadline 13s or later")) << factor;
  }
}

TEST(PlanGraph, WorksByRulesOfThumbToo) {
  const GraphFolder files;
  const CommandResult greedy = files.plan("--memory 4 --solver greedy");
  EXPECT_EQ(greedy.exit_code, 0) << greedy.errors;
  EXPECT_THAT(greedy.out, AllOf(HasSubstr("solver    greedy"), Not(HasSubstr("optimal"))));
  EXPECT_THAT(files.plan("--solver keep_all").out, HasSubstr("energy    12.0 J per step"));
}

/// What greedy finds for energy may take longer; the deadline is its own fastest step all the same.
TEST(PlanGraph, ADeadlineOfTheSolversFastestStepIsMetByIt) {
  const std::string configs = TRIREME_SOURCE_DIR "/configs/";
  const CommandResult found =
      run_command(kTrireme + " plan --graph " + configs + "graphs/resnet-18-cifar-blocks.yaml" +
                  " --platform " + configs + "platforms/raspberry-pi-4b.yaml --memory 3MB" +
                  " --solver greedy --objective energy --deadline 1x --time-limit 2");
  EXPECT_EQ(found.exit_code, 0) << found.errors;
}

TEST(PlanGraph, RefusesWhatDoesNotGoTogether) {
  const GraphFolder files;
  const auto refused = [&](const std::string& options) {
    const CommandResult result =
        run_command(kTrireme + " plan --graph " + files.graph + " " + options);
    EXPECT_EQ(result.exit_code, 2) << options;
    return result.errors;
  };
  EXPECT_THAT(refused(""), HasSubstr("--graph: needs a device: give --platform"));
  EXPECT_THAT(refused("--platform " + files.device + " --stages 2"), HasSubstr("--stages"));
  EXPECT_THAT(refused("--platform " + files.device + " --solver nothing"),
              HasSubstr("no solver of graphs is called 'nothing'"));
  EXPECT_THAT(refused("--chain " + files.graph), HasSubstr("--chain"));
  EXPECT_THAT(refused("--platform " + files.device + " --compact"), HasSubstr("--output"));
}

TEST(SimulateGraph, RefusesASchedulesThatCannotRunAndPlansOfOtherGraphs) {
  const GraphFolder files;
  files.folder.file("bad.txt", "c0-1 c3\n");
  const CommandResult bad = files.simulate(files.path("bad.txt"));
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.errors, HasSubstr("bad.txt: action"));

  files.plan("--solver keep_all -o " + files.path("p.json"));
  files.folder.file("graph.yaml", replaced(unit_chain(), "compute_s: 1,", "compute_s: 3,"));
  const CommandResult other = files.simulate(files.path("p.json"));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("give the graph that the plan was made for"));
}

// In 5 bytes: the fastest schedule computes again, that of least energy copies (0.25 J each way).
TEST(PlanGraph, ParetoGoesFromTheFastestToTheLeastEnergy) {
  const GraphFolder files;
  if (!has_poet(files)) GTEST_SKIP() << "needs HiGHS";
  const std::string csv = files.path("pareto.csv");
  const CommandResult result = files.plan("--memory 5 --pareto --csv " + csv);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  std::istringstream lines(text_of(csv));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "step_s,energy_j,step_ratio,energy_ratio,recompute_s,plan");
  double time = 0, energy = 1e9;
  int plans = 0;
  while (std::getline(lines, line)) {
    const double step = std::stod(line), joules = std::stod(line.substr(line.find(',') + 1));
    EXPECT_GT(step, time);
    EXPECT_LT(joules, energy);
    time = step;
    energy = joules;
    ++plans;
  }
  EXPECT_GE(plans, 1);
  const json least = json::parse(files.plan("--memory 5 --objective energy --json").out);
  EXPECT_NEAR(energy, least["predicted"]["energy_j"], 1e-6 * energy);
}

TEST(PlanGraph, OneOfTheTwoTechniquesAloneIsNeverBetter) {
  const GraphFolder files;
  if (!has_poet(files)) GTEST_SKIP() << "needs HiGHS";
  const auto energy = [&](const std::string& solver) {
    const CommandResult result =
        files.plan("--memory 5 --objective energy --json --solver " + solver);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.out)["predicted"]["energy_j"].get<double>();
  };
  const double both = energy("poet");
  EXPECT_LE(both, energy("poet_recompute"));
  EXPECT_LE(both, energy("poet_offload"));
}

}  // namespace
}  // namespace trireme
