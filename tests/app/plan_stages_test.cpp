// `trireme plan --stages` end to end.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Eight layers with f = 1, b = 2, outputs of 1 and tapes of 3 bytes after an input of one.
std::string equal_layers_text(const std::string& more = "") {
  std::string text = "format: trireme-chain/1\nname: equal\ninput_bytes: 1\nlayers:\n";
  for (int i = 1; i <= 8; ++i)
    text += "  - {name: layer" + std::to_string(i) +
            ", forward_s: 1, backward_s: 2, output_bytes: 1, tape_bytes: 3,"
            " backward_transient_bytes: 1" +
            more + "}\n";
  return text;
}

struct StageFolder : PlanFolder {
  StageFolder() { folder.file("chain.yaml", equal_layers_text()); }

  CommandResult plan(const std::string& options) const {
    return run_command(kTrireme + " plan --chain " + chain + " " + options);
  }
};

TEST(PlanStages, CutsEqualLayersEvenly) {
  const StageFolder files;

  const json plan =
      json::parse(files.plan("--stages 4 --micro-batches 4 --schedule 1f1b --json").out);

  // 1F1B of equal stages of F = 2, B = 4 seconds: (4 + 4 - 1) x 6.
  EXPECT_EQ(plan["predicted"]["step_s"], 42);
  EXPECT_EQ(plan["schedule"], "1f1b");
  EXPECT_FALSE(plan.contains("order"));  // the schedule's own
  EXPECT_EQ(plan["stages"][1]["layers"], json({3, 4}));
}

TEST(PlanStages, ShowsEveryStageAndTheOthersTimes) {
  const StageFolder files;

  const CommandResult result = files.plan("--stages 2 --micro-batches 6 --memory 20");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("8 layers, 6 micro-batches per step, 2 stages"));
  EXPECT_THAT(result.out, HasSubstr("stage on rank 0: layers 1.."));
  EXPECT_THAT(result.out, HasSubstr("stage on rank 1: layers "));
  for (const char* const policy :
       {"keep_all, best cut", "keep_all, equal cut", "recompute_all, best cut",
        "best uniform (block 2), best cut", "adapipe, best cut", "joint, equal cut"})
    EXPECT_THAT(result.out, HasSubstr("\n" + std::string(policy) + " ")) << policy;
}

TEST(PlanStages, SaysWhatAPlanRestsOn) {
  const StageFolder files;
  files.folder.file("chain.yaml", equal_layers_text(", backward_weights_s: 1, pending_bytes: 2"));
  const std::string options = "--stages 4 --micro-batches 4 --schedule 1f1b --why";

  const CommandResult result = files.plan(options), all = files.plan(options + " --verbose");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  // ZB-H1 of equal thirds takes 2 x (3 x 4 + 3) s, 1F1B with whole backwards 2 x 3 x (4 + 3) s.
  EXPECT_THAT(result.out, ContainsRegex("\nsplit backward +used +whole backwards: 42.0 s +"
                                        "[+]40.0 % +0.2 % "));
  EXPECT_THAT(result.out,
              ContainsRegex("\noptimizer state in the offload tier +not searched +any "));
  // Split backwards of the five neighbouring cuts: one of their ranks has three of the eight
  // layers, 36 s of work.
  EXPECT_THAT(result.out, ContainsRegex("\n[0-9]+ decisions simulated; 5 skipped"));
  EXPECT_THAT(result.out, ContainsRegex("\n[a-z]+, split backward +30.0 s"));
  EXPECT_EQ(all.exit_code, 0) << all.errors;
  EXPECT_THAT(files.plan(options + " --json").exit_code, 2);
  EXPECT_THAT(files.plan("--verbose").exit_code, 2);
}

TEST(PlanStages, SaysWhatWasTriedWhereNothingFits) {
  const StageFolder files;

  const CommandResult result = files.plan("--stages 2 --micro-batches 6 --memory 4 --why");

  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, HasSubstr("does not fit"));
}

TEST(PlanStages, HasGradientsOfWeightsBehindWhereThatIsFaster) {
  const StageFolder files;
  files.folder.file("chain.yaml", equal_layers_text(", backward_weights_s: 1, pending_bytes: 2"));
  const std::string options = "--stages 4 --micro-batches 4 --schedule 1f1b ";

  const CommandResult result = files.plan(options + "-o " + files.path("p.json"));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out,
              HasSubstr("1 in flight, split backward, weight gradients deferred by 3 passes"));
  EXPECT_THAT(result.out, HasSubstr("whole backwards"));
  // ZB-H1 of equal stages whose forwards and both parts of whose backwards take 2 seconds:
  // 4 x 6 + 3 x 2; with whole backwards (4 + 3) x 6.
  EXPECT_EQ(json::parse(files.plan(options + "--json").out)["predicted"]["step_s"], 30);
  EXPECT_EQ(
      json::parse(files.plan(options + "--split-backward never --json").out)["predicted"]["step_s"],
      42);
  const CommandResult looked = run_command(kTrireme + " simulate " + files.path("p.json") +
                                           " --chain " + files.chain + " --json");
  ASSERT_EQ(looked.exit_code, 0) << looked.errors;
  EXPECT_EQ(json::parse(looked.out)["step_s"], 30);
}

TEST(PlanStages, HasSeveralChunksOnEveryRankWhereThatIsFaster) {
  const StageFolder files;
  files.folder.file("chain.yaml", equal_layers_text(", backward_weights_s: 1, pending_bytes: 2"));
  const std::string options = "--stages 4 --micro-batches 4 ";

  const CommandResult result = files.plan(options + "-o " + files.path("p.json"));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("4 ranks with 2 chunks each, "));
  EXPECT_THAT(result.out, HasSubstr("no order of these passes is faster"));
  EXPECT_THAT(result.out, HasSubstr("one chunk on every rank"));
  // Chunks of a layer: three forwards of 1 s until rank 3 has its first, then 4 x 6 s of work.
  EXPECT_EQ(json::parse(text_of(files.path("p.json")))["predicted"]["step_s"], 27);
  EXPECT_EQ(run_command(kTrireme + " check " + files.path("p.json") + " --chain " + files.chain)
                .exit_code,
            0);
  const json named = json::parse(files.plan(options + "--schedule zb-v --json").out);
  EXPECT_EQ(named["schedule"], "zb-v");
  EXPECT_EQ(named["stages"].size(), 8);
  EXPECT_EQ(files.plan(options + "--schedule zb-v --cut 3").exit_code, 2);
}

// Oracle: what each solver that is asked for by name plans.
TEST(PlanStages, IsNeverSlowerThanTheAlternatives) {
  const StageFolder files;
  int alternatives = 0, named = 0;

  for (const int memory : {16, 18, 24}) {
    const std::string question =
        "--stages 3 --micro-batches 6 --json --memory " + std::to_string(memory);
    const json plan = json::parse(files.plan(question).out);
    const double step = plan["predicted"]["step_s"];
    for (const json& other : plan["alternatives"]) {
      if (!other.contains("step_s")) continue;
      EXPECT_LE(step, double(other["step_s"]) + 1e-9) << other;
      ++alternatives;
    }
    for (const std::string solver : {"keep_all", "recompute_all", "uniform", "adapipe", "joint"}) {
      const CommandResult asked = files.plan(question + " --solver " + solver);
      if (asked.exit_code != 0) continue;
      const double taken = json::parse(asked.out)["predicted"]["step_s"];
      EXPECT_LE(step, taken + 1e-9) << solver << ' ' << memory;
      ++named;
    }
  }
  EXPECT_GE(alternatives, 18);
  EXPECT_GE(named, 12);
}

TEST(PlanStages, MakesWhatSimulateAgreesWith) {
  const StageFolder files;
  const std::string file = files.path("plan.json"), page = files.path("plan.html");

  const CommandResult result =
      files.plan("--stages 2 --micro-batches 6 --memory 20 -o " + file + " --report " + page);

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const json planned = json::parse(text_of(file));
  const json simulated = json::parse(
      run_command(kTrireme + " simulate " + file + " --chain " + files.chain + " --json").out);
  EXPECT_EQ(planned["predicted"]["step_s"], simulated["step_s"]);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(planned["stages"][k]["predicted"]["peak_bytes"], simulated["ranks"][k]["peak_bytes"]);
    EXPECT_LE(simulated["ranks"][k]["peak_bytes"], 20);
  }
  EXPECT_THAT(text_of(page), HasSubstr("<svg"));
  EXPECT_EQ(run_command(kTrireme + " check " + file + " --chain " + files.chain).exit_code, 0);
}

TEST(PlanStages, KeepsTheGivenCutScheduleAndSolver) {
  const StageFolder files;

  const json plan = json::parse(files
                                    .plan("--stages 3 --micro-batches 4 --cut 1,3 --schedule gpipe "
                                          "--solver recompute_all --json")
                                    .out);

  EXPECT_EQ(plan["stages"][1]["layers"], json({2, 3}));
  EXPECT_EQ(plan["schedule"], "gpipe");
  EXPECT_FALSE(plan.contains("order"));
  EXPECT_EQ(plan["stages"][0]["forward"], json::parse(R"([["forward_keep", 1]])"));
}

TEST(PlanStages, PutsMoreLayersOnFasterRanks) {
  const StageFolder files;
  const std::string platform = files.folder.file(
      "platform.yaml",
      "format: trireme-platform/1\nranks: [{memory_bytes: 99}, {memory_bytes: 99, "
      "speed: 3}, {memory_bytes: 99}]\n");

  const CommandResult result =
      files.plan("--stages 2 --micro-batches 16 --schedule 1f1b --json --platform " + platform);

  const json plan = json::parse(result.out);
  EXPECT_EQ(plan["stages"][0]["layers"], json({1, 2}));
  EXPECT_THAT(result.errors, HasSubstr("planning for ranks 0..1 of the 3"));
}

TEST(PlanStages, ExitsWith3AndSaysWhatIsLacking) {
  const StageFolder files;
  const std::string stages = "--stages 2 --micro-batches 4 --memory ";

  const CommandResult result = files.plan("--json " + stages + "5");

  ASSERT_EQ(result.exit_code, 3);
  const json why = json::parse(result.out)["infeasible"];
  const int least = why["least_budget_bytes"];
  EXPECT_EQ(why["available_bytes"], 5);
  EXPECT_EQ(why["needed_bytes"], least);
  EXPECT_THAT(result.errors, HasSubstr("the tightest stage, layers "));
  EXPECT_EQ(files.plan(stages + std::to_string(least)).exit_code, 0);
  EXPECT_EQ(files.plan(stages + std::to_string(least - 1)).exit_code, 3);
}

TEST(PlanStages, SaysWhatOneRankWouldNeed) {
  const StageFolder files;
  const std::string platform = files.folder.file(
      "platform.yaml",
      "format: trireme-platform/1\nranks: [{memory_bytes: 99}, {memory_bytes: 4}]\n");

  const CommandResult result = files.plan("--stages 2 --micro-batches 4 --platform " + platform);

  EXPECT_EQ(result.exit_code, 3);
  // A backward of one layer holds its input, its tape and two gradients: 1 + 3 + 1 + 1 bytes.
  EXPECT_THAT(result.errors, HasSubstr("2 B (2 bytes) more on rank 1 alone"));
}

TEST(PlanStages, NamesWhatFitsWhereTheAskedSolverDoesNot) {
  const StageFolder files;

  const CommandResult result =
      files.plan("--stages 2 --micro-batches 8 --memory 18 --solver keep_all");

  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.errors, HasSubstr("keep_all does not fit"));
  EXPECT_THAT(result.errors, HasSubstr("joint fits, with"));
}

TEST(PlanStages, RefusesWhatIsForOneStage) {
  const StageFolder files;

  for (const std::string option : {"--sweep 3", "--solver all"}) {
    const CommandResult result = files.plan("--stages 2 " + option);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, HasSubstr("is for one stage"));
  }
}

TEST(PlanStages, SaysThatNoMemoryWasGivenOnlyWhereNoRankHasSome) {
  const StageFolder files;
  const auto errors = [&](const std::string& memory) {
    const std::string platform = files.folder.file(
        "platform.yaml",
        "format: trireme-platform/1\nranks: [{memory_bytes: 0}, {memory_bytes: " + memory + "}]\n");
    return files.plan("--stages 2 --platform " + platform).errors;
  };

  EXPECT_THAT(errors("0"), HasSubstr("no memory given"));
  EXPECT_THAT(errors("100000"), Not(HasSubstr("no memory given")));
}

TEST(PlanRanks, RefusesABatchWhoseBytesCannotBeCounted) {
  const StageFolder files;

  files.folder.file("chain.yaml",
                    "format: trireme-chain/1\nname: large\ninput_bytes: 1\nlayers:\n"
                    "  - {name: a, forward_s: 1, backward_s: 2, output_bytes: 0, tape_bytes: "
                    "1048575}\n");

  const CommandResult result = files.plan("--ranks 2 --batch 2147483647 --micro-batch-size 1");

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("--batch: is 2147483647, must be at most 1073741824"));
}

TEST(PlanRanks, ChoosesStagesReplicasAndMicroBatches) {
  const StageFolder files;

  const CommandResult result =
      files.plan("--ranks 4 --batch 8 --micro-batch-size 1 --memory 40 --replicas 2");

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("chosen"));
  EXPECT_THAT(result.out, HasSubstr("an estimate"));
  EXPECT_THAT(result.out, HasSubstr("4 micro-batches per step, 2 "));
}

TEST(PlanRanks, PrintsThePlanAloneAsJson) {
  const StageFolder files;

  const CommandResult result = files.plan(
      "--ranks 4 --batch 8 --micro-batch-size 1 --stages 4 --micro-batches 4 --schedule 1f1b "
      "--json");

  const json plan = json::parse(result.out);
  EXPECT_EQ(plan["stages"].size(), 4);
  EXPECT_EQ(plan["micro_batches"], 4);
  // Two examples each: (4 + 4 - 1) x 2 x 6.
  EXPECT_EQ(plan["predicted"]["step_s"], 84);
}

TEST(PlanRanks, NeedsABatchAndWhatWasMeasured) {
  const StageFolder files;

  EXPECT_EQ(files.plan("--ranks 4 --batch 8").exit_code, 2);
  EXPECT_THAT(files.plan("--ranks 4 --batch 8 --micro-batch-size 1 --solver all").errors,
              HasSubstr("--solver all: is for one stage"));
  EXPECT_EQ(files.plan("--batch 8").exit_code, 2);
  EXPECT_EQ(files.plan("--ranks 4 --batch 8 --micro-batch-size 1 --stages 3").exit_code, 2);
  EXPECT_EQ(files.plan("--ranks 4 --batch 8 --micro-batch-size 1 --memory 3").exit_code, 3);
}

}  // namespace
}  // namespace trireme
