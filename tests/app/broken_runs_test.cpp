// Runs whose folders were damaged by crashes, users or disks, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "resuming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kTrireme = TRIREME_BINARY;

class BrokenRun : public Resuming {
 protected:
  /// Flips the last bit of a file, under all of its names.
  static void flip(const std::filesystem::path& file) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(-1, std::ios::end);
    const int last = bytes.get();
    bytes.seekp(-1, std::ios::end);
    bytes.put(static_cast<char>(last ^ 1));
  }
};

TEST_F(BrokenRun, ACheckpointUnderTheNameOfAnotherStepIsRefused) {
  crash_after_three();
  const std::filesystem::path renamed = run_ / "checkpoints" / "step-2";
  std::filesystem::rename(run_ / "checkpoints" / "step-3", renamed);

  const CommandResult run = train("--set checkpoint.every=3 --set train.steps=6");

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("manifest.json: step is 3, must be 2, as in the folder's"));
  EXPECT_THAT(run.errors, HasSubstr("remove " + renamed.string()));
}

// As if the folder around it belonged to somebody else.
TEST_F(BrokenRun, AFolderIsLockedFromWithinWhereNothingCanBeWrittenBesideIt) {
  std::filesystem::create_directories(run_.parent_path() / ".small.lock");
  std::filesystem::create_directories(run_);
  const std::string locked = "flock " + (run_ / ".lock").string();

  const CommandResult second = train("", locked);
  const CommandResult alone = train("--set checkpoint.every=2 --set pipeline.stages=2");

  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.errors, HasSubstr("report.directory: another run is in " + run_.string()));
  EXPECT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_THAT(alone.out, Not(HasSubstr("cannot be locked")));
}

TEST_F(BrokenRun, AFolderThatCannotBeLockedIsNoted) {
  std::filesystem::create_directories(run_.parent_path() / ".small.lock");
  std::filesystem::create_directories(run_ / ".lock");

  const CommandResult run = train("");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("note: " + run_.string() + " cannot be locked (Is a directory)"));
}

// One was saved on request, none at the end.
TEST_F(BrokenRun, ACheckpointBeforeTheEndIsNotTakenForTheEnd) {
  crash_after_three();
  ASSERT_EQ(train("--set train.steps=6").exit_code, 0);
  const std::string out = (folder_.path() / "model").string();

  for (const std::string& command :
       {kTrireme + " export " + run_.string() + " -o " + out,
        kTrireme + " generate " + run_.string() + " --prompt-tokens 1 --tokens 1"}) {
    const CommandResult refused = run_command(command);
    const CommandResult taken = run_command(command + " --step 3");

    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("the run has ended after step 6, but its newest "
                                          "checkpoint is of step 3: take that with --step 3"));
    EXPECT_EQ(taken.exit_code, 0) << taken.errors;
  }
}

TEST_F(BrokenRun, AnEndThatCouldNotBeDrawnIsMadeGoodWithoutTraining) {
  const std::string settings = "--set checkpoint.every=2 ";
  const CommandResult first = train(settings + "--trace /dev/full");
  const CommandResult second = train(settings + "--trace /dev/full");
  const CommandResult last = train(settings);

  EXPECT_EQ(first.exit_code, 1);
  EXPECT_THAT(first.errors, HasSubstr("/dev/full: cannot be written"));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.out, HasSubstr("resumes from"));
  EXPECT_EQ(last.exit_code, 0) << last.errors;
  EXPECT_EQ(summary_of(run_)["resumed_after_steps"], 3);
  EXPECT_FALSE(std::filesystem::exists(run_.string() + ".1"));
}

TEST_F(BrokenRun, WhatAKilledRunHasLeftIsRemovedBeforeItsEndIsMadeGood) {
  const std::string settings = "--set train.steps=6 --set checkpoint.every=2 ";
  train(settings + "--set checkpoint.keep=3");
  std::filesystem::remove(run_ / "summary.json");
  const std::filesystem::path draft = run_ / "checkpoints" / "step-1.draft";
  std::filesystem::create_directories(draft);
  for (const char* const file : {".metrics.jsonl.123.part", ".mine.123.part", ".plan.json.part"})
    std::ofstream(run_ / file) << "x";

  const CommandResult run = train(settings);

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("resumes from"));
  EXPECT_FALSE(std::filesystem::exists(draft));
  EXPECT_FALSE(std::filesystem::exists(run_ / "checkpoints" / "step-2"));
  EXPECT_TRUE(std::filesystem::exists(run_ / "checkpoints" / "step-4"));
  EXPECT_FALSE(std::filesystem::exists(run_ / ".metrics.jsonl.123.part"));
  EXPECT_TRUE(std::filesystem::exists(run_ / ".mine.123.part"));
  EXPECT_TRUE(std::filesystem::exists(run_ / ".plan.json.part"));
}

TEST_F(BrokenRun, HalfOfAFirstCheckpointIsNotMovedAlong) {
  train("");
  std::filesystem::remove(run_ / "summary.json");
  std::filesystem::create_directories(run_ / "checkpoints" / "step-3.draft");

  const CommandResult run = train("--set checkpoint.every=3");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_TRUE(std::filesystem::exists(run_.string() + ".1/metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(run_.string() + ".1/checkpoints/step-3.draft"));
}

// Leftovers of processes that are gone, on this machine.
TEST_F(BrokenRun, DraftsOfExportsThatWereKilledAreRemovedByTheNext) {
  train("--set checkpoint.every=3");
  std::string host = run_command("uname -n").out;
  host.pop_back();
  const std::filesystem::path out = folder_.path() / "model";
  const auto draft_of = [&](const std::string& process) {
    const std::filesystem::path draft = folder_.path() / (".model." + process + ".draft");
    std::filesystem::create_directories(draft);
    return draft;
  };
  const auto gone = draft_of(host + ".999999999"), lives = draft_of(host + ".1"),
             elsewhere = draft_of("not-" + host + ".999999999");

  const CommandResult exported =
      run_command(kTrireme + " export " + run_.string() + " -o " + out.string());

  EXPECT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_FALSE(std::filesystem::exists(gone));
  EXPECT_TRUE(std::filesystem::exists(lives));
  EXPECT_TRUE(std::filesystem::exists(elsewhere));
}

TEST_F(BrokenRun, AnotherKindOfCpuIsNoted) {
  crash_after_three();
  const std::string settings = "--set checkpoint.every=3 --set train.steps=6";

  const CommandResult run = train(settings, "ATEN_CPU_CAPABILITY=default");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const std::string kind = run_command("grep -om1 -w -e avx2 -e avx512f /proc/cpuinfo").out;
  EXPECT_EQ(run.out.find("not as in the checkpoint: the CPU's vectors: DEFAULT, there ") !=
                std::string::npos,
            !kind.empty())
      << run.out;
  EXPECT_THAT(run.out, Not(HasSubstr("checkpoint: device")));
}

TEST_F(BrokenRun, AFolderWithinAnotherRunsIsRefused) {
  train("");

  const CommandResult run = train("--set report.directory=" + (run_ / "more" / "inner").string());

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("lies in the folder of a run, " + run_.string()));
}

/// Adapters for weights that the plain run has exported.
class BrokenTuning : public BrokenRun {
 protected:
  BrokenTuning() {
    train("--set checkpoint.every=3");
    run_command(kTrireme + " export " + run_.string() + " -o " + weights_);
    const std::filesystem::path frozen = run_ / "checkpoints" / "step-4";
    tune("");
    plain_ = summary_of(run_);
    std::filesystem::remove(run_ / "summary.json");
    std::filesystem::remove_all(run_ / "checkpoints" / "step-6");
    flip(frozen / "rank-0.frozen.safetensors");
  }
  CommandResult tune(const std::string& settings) {
    return train(
        "--set train.steps=6 --set checkpoint.every=2 --set checkpoint.keep=3 --set "
        "model.lora_rank=2 --set model.weights=" +
        weights_ + " " + settings);
  }

  std::string weights_ = (folder_.path() / "weights").string();
  nlohmann::json plain_;
};

TEST_F(BrokenTuning, ReadsFrozenWeightsThatAreDamagedFromWhereTheRunBegan) {
  const CommandResult run = tune("--set pipeline.stages=2");

  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("note: the checkpoint's file of frozen weights is damaged: "
                                 "'parameters/"));
  EXPECT_THAT(run.out, HasSubstr("were read again from " + weights_));
  EXPECT_EQ(summary_of(run_)["resumed_after_steps"], 4);
  EXPECT_EQ(summary_of(run_)["parameters_digest"], plain_["parameters_digest"]);
}

TEST_F(BrokenTuning, IsExportedWithoutATokenizerThatIsNotHereAndSaysSo) {
  flip(run_ / "checkpoints" / "step-4" / "rank-0.frozen.safetensors");  // is whole again
  std::filesystem::rename(weights_, weights_ + "-elsewhere");

  const CommandResult exported =
      run_command(kTrireme + " export " + run_.string() + " -o " + weights_ + "-tuned");

  EXPECT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_THAT(exported.out, HasSubstr("note: without a tokenizer, for the weights that the run "
                                      "began with, " +
                                      weights_ + ", are not here"));
}

TEST_F(BrokenTuning, NeverAsksForCheckpointsToBeRemovedThatShareTheDamage) {
  flip(weights_ + "/model.safetensors");  // its last tensor, which the checkpoint has last, too
  flip(run_ / "checkpoints" / "step-4" / "rank-0.safetensors");
  const CommandResult learned = tune("");
  flip(run_ / "checkpoints" / "step-4" / "rank-0.safetensors");
  const CommandResult exported =
      run_command(kTrireme + " export " + run_.string() + " -o " + weights_ + "-tuned");

  EXPECT_EQ(learned.exit_code, 2);
  EXPECT_THAT(learned.errors, HasSubstr("rank-0.safetensors: tensor '"));
  EXPECT_THAT(learned.errors, HasSubstr("remove " + (run_ / "checkpoints" / "step-4").string()));
  EXPECT_EQ(exported.exit_code, 2);
  EXPECT_THAT(exported.errors, HasSubstr("rank-0.frozen.safetensors: tensor '"));
  EXPECT_THAT(exported.errors, HasSubstr("remove none of them"));
}

}  // namespace
}  // namespace trireme
