// `trireme simulate` end to end.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include "trireme/chain/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kTwoLayers =
    "format: trireme-chain/1\n"
    "name: two\n"
    "input_bytes: 1\n"
    "layers:\n"
    "  - {name: first, forward_s: 1, backward_s: 2, output_bytes: 10, tape_bytes: 20}\n"
    "  - {name: second, forward_s: 1, backward_s: 2, output_bytes: 0, tape_bytes: 20,"
    " backward_transient_bytes: 10}\n";

/// A plan of two stages written by hand; `forward` and `backward` are of the first.
std::string two_stages(const std::string& chain, const std::string& forward,
                       const std::string& backward) {
  return R"({"format": "trireme-plan/1", "chain": {"name": "two", "digest": ")" +
         chain::digest(chain::load_chain(chain)) +
         R"("}, "schedule": "1f1b", "micro_batches": 3, "stages": [
 {"layers": [1, 1], "forward": )" +
         forward + R"(, "backward": )" + backward + R"(},
 {"layers": [2, 2], "forward": [["forward_tape", 2]], "backward": [["backward", 2]]}]})";
}

struct TwoStages {
  TemporaryFolder folder;
  std::string chain = folder.file("chain.yaml", kTwoLayers);
  std::string plan = folder.file(
      "plan.json", two_stages(chain, R"([["forward_tape", 1]])", R"([["backward", 1]])"));

  CommandResult simulate(const std::string& options) const {
    return run_command(kTrireme + " simulate " + plan + " --chain " + chain + " " + options);
  }
};

// Equal stages: step = (m + p - 1)(f + b), bubble = (p - 1) / (m + p - 1) (Narayanan et al. 2021).
TEST(SimulateCommand, AgreesWithTheClosedFormOf1F1B) {
  const TwoStages files;

  const json document = json::parse(files.simulate("--json").out);

  EXPECT_EQ(document["step_s"], 12);
  EXPECT_EQ(document["bubble"], 0.25);
}

TEST(CheckCommand, SaysThatMessagesCostNothingWithoutAPlatform) {
  const TwoStages files;
  const std::string command = kTrireme + " check " + files.plan + " --chain " + files.chain;
  const std::string platform = files.folder.file(
      "platform.yaml",
      "format: trireme-platform/1\nranks:\n  - {memory_bytes: 0}\n  - {memory_bytes: 0}\n");
  const auto note = HasSubstr("without --platform, messages between ranks take neither time nor");

  EXPECT_THAT(run_command(command).errors, note);
  const CommandResult with = run_command(command + " --platform " + platform);
  EXPECT_EQ(with.exit_code, 0) << with.errors;
  EXPECT_THAT(with.errors, testing::Not(note));
}

// The weights of layers 1, 2 and 4 are streamed, 2 at once: stage 3 adds nothing to what stage 1
// keeps on their rank, whether the plan states it or leaves it out.
TEST(SimulateCommand, CountsTheWeightsOfARanksStagesTogether) {
  const TemporaryFolder folder;
  const std::string frozen = ", parameter_bytes: 1000, frozen_bytes: 1000";
  std::string layers;
  for (int i = 1; i <= 4; ++i)
    layers += "  - {name: l" + std::to_string(i) +
              ", forward_s: 1, backward_s: 2, output_bytes: 10, tape_bytes: 20" +
              (i == 3 ? "" : frozen) + "}\n";
  const std::string chain = folder.file(
      "chain.yaml", "format: trireme-chain/1\nname: four\ninput_bytes: 1\nlayers:\n" + layers);
  const std::string platform = folder.file(
      "platform.yaml",
      "format: trireme-platform/1\nranks:\n"
      "  - {memory_bytes: 2100, host_bytes: 1MiB, out_bytes_per_s: 1000, in_bytes_per_s: 1000}\n"
      "  - {memory_bytes: 2100}\n");
  const auto peak_with = [&](const std::string& first, const std::string& third) {
    const std::string plan = folder.file(
        "plan.json", R"({"format": "trireme-plan/1", "chain": {"name": "four", "digest": ")" +
                         chain::digest(chain::load_chain(chain)) +
                         R"("}, "schedule": "gpipe", "micro_batches": 1, "stages": [
 {"layers": [1, 2], "rank": 0, "streamed": [1, 2], )" +
                         first + R"("forward": [["forward_tape", 1], ["forward_tape", 2]],
  "backward": [["backward", 2], ["backward", 1]]},
 {"layers": [3, 3], "rank": 1, "forward": [["forward_tape", 3]], "backward": [["backward", 3]]},
 {"layers": [4, 4], "rank": 0, "streamed": [4], )" +
                         third +
                         R"("forward": [["forward_tape", 4]], "backward": [["backward", 4]]}],
 "turns": [{"rank": 0, "stages": [0, 2, 2, 0]}]})");
    const CommandResult result = run_command(kTrireme + " simulate " + plan + " --chain " + chain +
                                             " --platform " + platform + " --json");
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.out)["ranks"][0]["peak_bytes"].get<int>();
  };
  const int said = peak_with(R"("static_bytes": 2000, )", R"("static_bytes": 0, )");
  EXPECT_GT(said, 2000);
  EXPECT_EQ(peak_with("", ""), said);
}

TEST(SimulateCommand, PrintsATableOfRanksAndTheirPeaks) {
  const TwoStages files;

  const CommandResult result = files.simulate("");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("step      12.0 s"));
  EXPECT_THAT(result.out, HasSubstr("bubble    25.0 %"));
  EXPECT_THAT(result.out, testing::ContainsRegex("\n +0 +1 +9\\.00 s"));
  // Two micro-batches in flight: two tapes of 20, two inputs of 1, a gradient of 10.
  EXPECT_THAT(result.out, HasSubstr("peak of rank 0: 52 B"));
  EXPECT_THAT(result.out, HasSubstr("40 B  tape 1 of 2 micro-batches"));
}

TEST(SimulateCommand, DrawsThePassesOfAPipeline) {
  const TwoStages files;

  EXPECT_THAT(files.simulate("").out, HasSubstr("as if all took equally long:\n"
                                                "0 | F0 F1 .. B0 F2 B1 .. B2\n"
                                                "1 | .. F0 B0 F1 B1 F2 B2 ..\n"));
}

TEST(SimulateCommand, WritesATraceAndAPage) {
  const TwoStages files;
  const std::string trace = (files.folder.path() / "trace.json").string();
  const std::string page = (files.folder.path() / "page.html").string();

  const CommandResult result = files.simulate("--trace " + trace + " --report " + page);

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  double end = 0;
  const json written = json::parse(text_of(trace));
  for (const json& event : written["traceEvents"]) {
    if (event["ph"] == "X")
      end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(end, 12e6);
  EXPECT_THAT(text_of(page), HasSubstr("Rank 1: memory and lanes"));
}

TEST(SimulateCommand, TakesLinksFromThePlatform) {
  const TwoStages files;
  const std::string platform = files.folder.file("platform.yaml",
                                                 "format: trireme-platform/1\n"
                                                 "ranks: [{memory_bytes: 0}, {memory_bytes: 0}]\n"
                                                 "links: {bytes_per_s: 20}\n");

  // A message takes 10 / 20 s. By hand, F and B with their ends: rank 0 F0 1, F1 2; rank 1 F0 2.5,
  // B0 4.5, F1 5.5, B1 7.5; rank 0 B0 7, F2 8, B1 10; rank 1 F2 9.5, B2 11.5; rank 0 B2 14.
  const json slow = json::parse(files.simulate("--json --platform " + platform).out);
  const json free = json::parse(files.simulate("--json").out);

  EXPECT_EQ(slow["step_s"], 14);
  EXPECT_EQ(slow["ranks"][0]["busy_s"], free["ranks"][0]["busy_s"]);
}

TEST(SimulateCommand, SaysWhichBudgetWouldDo) {
  const TwoStages files;
  const auto platform = [&](int memory) {
    return "--json --platform " +
           files.folder.file("platform.yaml",
                             "format: trireme-platform/1\nranks: [{memory_bytes: " +
                                 std::to_string(memory) + "}, {memory_bytes: 99}]\n");
  };

  const CommandResult result = files.simulate(platform(51));

  EXPECT_EQ(result.exit_code, 3);
  const json why = json::parse(result.out)["infeasible"];
  EXPECT_EQ(why["rank"], 0);
  EXPECT_EQ(why["layers"], json::parse("[1, 1]"));
  EXPECT_EQ(why["available_bytes"], 51);
  EXPECT_EQ(why["least_budget_bytes"], 52);
  EXPECT_EQ(files.simulate(platform(52)).exit_code, 0);
}

TEST(SimulateCommand, WantsTheRatesOfCopies) {
  TwoStages files;
  files.folder.file("plan.json",
                    two_stages(files.chain, R"([["forward_tape", 1], ["offload_tape", 1]])",
                               R"([["prefetch_tape", 1], ["backward", 1]])"));
  const std::string platform = files.folder.file(
      "platform.yaml",
      "format: trireme-platform/1\nranks: [{memory_bytes: 0, host_bytes: 40, out_bytes_per_s: 20, "
      "in_bytes_per_s: 20}, {memory_bytes: 0}]\n");

  const CommandResult without = files.simulate("");
  const CommandResult with = files.simulate("--json --platform " + platform);

  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.errors, HasSubstr("give --platform"));
  EXPECT_EQ(with.exit_code, 0) << with.errors;
  EXPECT_EQ(json::parse(with.out)["ranks"][0]["moved_bytes"], 60);
}

TEST(SimulateCommand, KeepsTheOffloadTierWithinItsSize) {
  TwoStages files;
  files.folder.file("plan.json",
                    two_stages(files.chain, R"([["forward_tape", 1], ["offload_tape", 1]])",
                               R"([["prefetch_tape", 1], ["backward", 1]])"));
  const std::string platform = files.folder.file(
      "platform.yaml",
      "format: trireme-platform/1\nranks: [{memory_bytes: 0, host_bytes: 19, out_bytes_per_s: 20, "
      "in_bytes_per_s: 20}, {memory_bytes: 0}]\n");

  const CommandResult result = files.simulate("--platform " + platform);

  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.errors, HasSubstr("in its offload tier"));
}

TEST(SimulateCommand, WantsEnoughRanks) {
  const TwoStages files;
  const std::string platform = files.folder.file(
      "platform.yaml", "format: trireme-platform/1\nranks: [{memory_bytes: 0}]\n");

  const CommandResult result = files.simulate("--platform " + platform);

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("has 1 ranks, but"));
}

}  // namespace
}  // namespace trireme
