// Runs that end too early and are resumed, end to end: real processes, killed.
// SPDX-License-Identifier: Apache-2.0
#include "resuming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kTrireme = TRIREME_BINARY;

class Killed : public Resuming, public testing::WithParamInterface<const char*> {};

TEST_P(Killed, AgainAndAgainItGivesTheRunThatWasNeverStopped) {
  const std::string settings =
      std::string("--set train.steps=300 --set checkpoint.every=20 --set checkpoint.background=") +
      GetParam() + " --set train.validate_every=50 --set report.log_every=10";
  ASSERT_EQ(train(settings + " --set checkpoint.every=0").exit_code, 0);
  const nlohmann::json plain = summary_of(run_);
  const std::string plain_metrics = text_of(run_ / "metrics.jsonl");

  int kills = 0;
  CommandResult last;
  // Waits longer each time, so that it ends on any machine.
  for (double seconds = 0.4;
       (last = train(settings, "timeout -s KILL " + std::to_string(seconds))).exit_code != 0 &&
       kills < 60;
       seconds *= 1.1)
    ++kills;

  EXPECT_GT(kills, 0);
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  const nlohmann::json resumed = summary_of(run_);
  for (const char* same :
       {"steps", "parameters_digest", "losses_digest", "train_loss", "validation_loss"})
    EXPECT_EQ(resumed[same], plain[same]) << same;
  // Every step is there once, with the same losses.
  std::istringstream a(text_of(run_ / "metrics.jsonl")), b(plain_metrics);
  for (std::string mine, theirs; std::getline(b, theirs);) {
    ASSERT_TRUE(std::getline(a, mine));
    const auto x = nlohmann::json::parse(mine), y = nlohmann::json::parse(theirs);
    EXPECT_EQ(x["step"], y["step"]);
    EXPECT_EQ(x.value("train_loss", 0.0), y.value("train_loss", 0.0));
  }
  EXPECT_EQ(a.peek(), EOF);
  for (const auto& entry : std::filesystem::directory_iterator(run_ / "checkpoints"))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("draft")));
}

INSTANTIATE_TEST_SUITE_P(InBackground, Killed, testing::Values("false", "true"),
                         [](const auto& each) { return std::string(each.param); });

TEST_F(Resuming, GoesOnWithOtherRanks) {
  ASSERT_EQ(train("--set train.steps=6").exit_code, 0);
  const nlohmann::json plain = summary_of(run_);
  crash_after_three();

  const CommandResult run =
      train("--set checkpoint.every=3 --set train.steps=6 --set pipeline.stages=3");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("resumes from " + (run_ / "checkpoints" / "step-3").string()));
  EXPECT_EQ(summary_of(run_)["parameters_digest"], plain["parameters_digest"]);
  EXPECT_EQ(summary_of(run_)["losses_digest"], plain["losses_digest"]);
  EXPECT_EQ(summary_of(run_)["steps"], 6);
}

TEST_F(Resuming, AnotherJobIsRefusedByAutoAndTakenByMust) {
  crash_after_three();
  const std::string other =
      "--set checkpoint.every=3 --set train.steps=6 --set train.optimizer.learning_rate=1e-4 ";

  const CommandResult refused = train(other);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("checkpoint.resume is auto"));
  EXPECT_THAT(refused.errors, HasSubstr("train.optimizer.learning_rate: 1e-04, there 6e-04"));
  EXPECT_TRUE(std::filesystem::exists(run_ / "checkpoints" / "step-3"));

  const CommandResult taken = train(other + "--set checkpoint.resume=must");
  EXPECT_EQ(taken.exit_code, 0) << taken.errors;
  EXPECT_THAT(taken.out,
              HasSubstr("note: not as in the checkpoint: train.optimizer.learning_rate"));
}

TEST_F(Resuming, AnotherKindOfOptimizerIsRefusedAlsoByMust) {
  crash_after_three();

  const CommandResult run = train(
      "--set train.steps=6 --set checkpoint.resume=must "
      "--set 'train.optimizer={kind: sgd, learning_rate: 0.01}'");

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("train.optimizer.kind is sgd, but"));
}

TEST_F(Resuming, ACrashBehindTheLastCheckpointIsMadeGood) {
  for (const std::string keep : {"1", "2"}) {
    const std::string settings =
        "--set checkpoint.every=2 --set train.steps=6 --set checkpoint.keep=" + keep;
    train(settings);
    const nlohmann::json before = summary_of(run_);
    const std::string metrics = text_of(run_ / "metrics.jsonl");
    std::filesystem::remove(run_ / "summary.json");

    const CommandResult run = train(settings);

    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_THAT(run.out, HasSubstr("resumes from " + (run_ / "checkpoints" / "step-6").string()));
    EXPECT_THAT(run.out, HasSubstr("6, all of them before this start"));
    for (const char* same :
         {"steps", "parameters_digest", "losses_digest", "train_loss", "validation_loss"})
      EXPECT_EQ(summary_of(run_)[same], before[same]) << same;
    EXPECT_EQ(text_of(run_ / "metrics.jsonl"), metrics);
    EXPECT_TRUE(std::filesystem::exists(run_ / "report.html"));
  }
}

TEST_F(Resuming, ADamagedCheckpointSaysWhatToRemove) {
  const std::string settings = "--set checkpoint.every=3 --set train.steps=9 ";
  for (const std::string file : {"manifest.json", "job.yaml", "rank-0.safetensors"}) {
    train(settings + "--set checkpoint.resume=never --set checkpoint.keep=3");
    std::filesystem::remove(run_ / "summary.json");
    const std::filesystem::path newest = run_ / "checkpoints" / "step-9";
    std::filesystem::resize_file(newest / file, 20);

    const CommandResult run = train(settings);
    std::filesystem::remove_all(newest);
    const CommandResult without = train(settings);

    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.errors, HasSubstr((newest / file).string()));
    EXPECT_THAT(run.errors, HasSubstr("remove " + newest.string() + " to resume from the one"));
    EXPECT_EQ(without.exit_code, 0) << without.errors;
    EXPECT_EQ(summary_of(run_)["resumed_after_steps"], 6);
  }
}

TEST_F(Resuming, OtherFilesAreAnotherJob) {
  const std::string text = folder_.file("text", std::string(5000, 'a') + std::string(5000, 'b'));
  const std::string settings =
      "--set train.steps=6 --set checkpoint.every=3 "
      "--set 'data={kind: text, files: [" +
      text +
      "]}' "
      "--set model.vocabulary=256";
  ASSERT_EQ(train(settings).exit_code, 0);
  std::filesystem::remove(run_ / "summary.json");
  std::filesystem::remove_all(run_ / "checkpoints" / "step-6");
  folder_.file("text", std::string(5000, 'a') + std::string(5000, 'c'));

  const CommandResult run = train(settings);

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("the content of data files"));
}

TEST_F(Resuming, NeverBeginsAnewAndKeepsTheEarlierRun) {
  crash_after_three();

  const CommandResult run = train("--set checkpoint.resume=never");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(summary_of(run_)["steps"], 3);
  EXPECT_TRUE(
      std::filesystem::exists(folder_.path() / "runs" / "small.1" / "checkpoints" / "step-3"));
}

TEST_F(Resuming, ARunThatHasEndedIsKeptAndBegunAnew) {
  train("--set checkpoint.every=2");

  const CommandResult run = train("--set checkpoint.every=2");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, Not(HasSubstr("resumes from")));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "runs" / "small.1" / "summary.json"));
}

TEST_F(Resuming, MustGoesOnWithMoreStepsAndSaysWhereThereIsNothing) {
  const CommandResult nothing = train("--set checkpoint.resume=must");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.errors, HasSubstr("is must, but there is no checkpoint in"));

  train("--set checkpoint.every=2");
  const CommandResult ended = train("--set checkpoint.resume=must");
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.errors, HasSubstr("is after 3 steps: nothing is left to train"));

  const CommandResult more = train("--set checkpoint.resume=must --set train.steps=5");
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_EQ(summary_of(run_)["steps"], 5);
}

TEST_F(Resuming, Usr1SavesAndStopsAlsoWithoutCheckpointsBeingAskedFor) {
  const std::string settings = "--set train.steps=300 --set pipeline.stages=2 ";
  ASSERT_EQ(train(settings).exit_code, 0);
  const nlohmann::json plain = summary_of(run_);
  const std::string metrics = (run_ / "metrics.jsonl").string();
  std::filesystem::remove_all(run_);

  const CommandResult stopped = run_command(
      kTrireme + " train " + job_ + " " + settings + " & pid=$!; for i in $(seq 3000); do [ -s " +
      metrics + " ] && break; sleep 0.01; done; kill -USR1 $pid; wait $pid");
  const CommandResult resumed = train(settings);

  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_THAT(stopped.errors, HasSubstr("which was saved: the same command resumes from there"));
  EXPECT_THAT(resumed.out, HasSubstr("resumes from"));
  EXPECT_EQ(summary_of(run_)["parameters_digest"], plain["parameters_digest"]);
  EXPECT_EQ(summary_of(run_)["losses_digest"], plain["losses_digest"]);
}

// State, weights and gradients are in the offload tier and are copied from there.
TEST_F(Resuming, SaysForHowLongStepsWereHeldUpByASaveInTheBackground) {
  const std::string settings = "--set train.steps=8 --set checkpoint.every=3 ";
  ASSERT_EQ(train(settings).exit_code, 0);
  const nlohmann::json plain = summary_of(run_);
  const std::string offloaded =
      settings +
      "--set checkpoint.resume=never --set memory.host_budget=64MiB --set memory.optimizer=offload "
      "--set memory.weights=offload --set checkpoint.background=true --set report.log_every=1 ";

  const CommandResult run = train(offloaded);
  std::filesystem::remove(run_ / "summary.json");
  std::filesystem::remove_all(run_ / "checkpoints" / "step-8");
  const CommandResult resumed = train(settings);

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("step 3/8  checkpoint of "));
  EXPECT_THAT(run.out, HasSubstr("step 6/8  checkpoint of "));
  EXPECT_THAT(run.out, HasSubstr(", steps held up for "));
  EXPECT_THAT(resumed.out, HasSubstr("resumes from " + (run_ / "checkpoints" / "step-6").string()));
  EXPECT_EQ(summary_of(run_)["parameters_digest"], plain["parameters_digest"]);
}

TEST_F(Resuming, KeepsTheNewestCheckpoints) {
  train("--set train.steps=7 --set checkpoint.every=2 --set checkpoint.keep=3");

  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run_ / "checkpoints"))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"step-4", "step-6", "step-7"}));
}

TEST_F(Resuming, TakesTheSizeOfMicroBatchesThatTheStepsHad) {
  train("--set train.steps=6 --set checkpoint.every=3");
  std::filesystem::remove(run_ / "summary.json");
  std::filesystem::remove_all(run_ / "checkpoints" / "step-6");

  const CommandResult run = train("--set train.steps=6 --set train.micro_batch=auto");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("micro-batches of 2"));
}

// Replicas could not be checked when the job was read.
TEST_F(Resuming, RefusesReplicasThatDoNotGoWithTheSizeThatTheStepsHad) {
  const std::string both = "--set checkpoint.every=3 --set train.steps=6 --set train.batch=12 ";
  train(both + "--set train.micro_batch=4");
  std::filesystem::remove_all(run_ / "checkpoints" / "step-6");
  std::filesystem::remove(run_ / "summary.json");

  const CommandResult refused =
      train(both + "--set train.micro_batch=auto --set pipeline.replicas=2");
  const CommandResult taken = train(
      both + "--set train.micro_batch=3 --set pipeline.replicas=2 --set checkpoint.resume=must");

  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors,
              HasSubstr("train.micro_batch is auto, which takes 4, the size that the steps of " +
                        (run_ / "checkpoints" / "step-3").string() +
                        " had, but train.batch 12 must be a multiple of micro_batch x "
                        "pipeline.replicas = 8: set it to 3 with checkpoint.resume: must, or "
                        "pipeline.replicas to 1 as before"));
  EXPECT_EQ(taken.exit_code, 0) << taken.errors;
}

TEST_F(Resuming, RefusesReplicasWhoseShareIsSmallerThanTheMicroBatchThatWasSaved) {
  const std::string both = "--set checkpoint.every=3 --set train.steps=6 ";
  train(both + "--set train.micro_batch=8");
  std::filesystem::remove_all(run_ / "checkpoints" / "step-6");
  std::filesystem::remove(run_ / "summary.json");

  const CommandResult run = train(both + "--set train.micro_batch=auto --set pipeline.replicas=2");

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("= 16: set it to 4 with checkpoint.resume: must"));
}

TEST_F(Resuming, NotesAnotherNumberOfReplicas) {
  crash_after_three();
  const std::string settings = "--set checkpoint.every=3 --set train.steps=6 ";

  const CommandResult more = train(settings + "--set pipeline.replicas=2");
  std::filesystem::remove(run_ / "summary.json");
  std::filesystem::remove_all(run_ / "checkpoints" / "step-6");
  const CommandResult same = train(settings);

  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_THAT(
      more.out,
      HasSubstr("note: not as in the checkpoint: replicas: 2, there 1; numbers may differ in "
                "their last bits, a validation loss by more"));
  EXPECT_EQ(same.exit_code, 0) << same.errors;
  EXPECT_THAT(same.out, Not(HasSubstr("not as in the checkpoint")));
}

// LibTorch takes most of a second to load, during which no thread watches signals.
TEST_F(Resuming, Usr1IsHeardFromTheFirstMomentOn) {
  const CommandResult stopped = run_command(
      kTrireme + " train " + job_ + " --set train.steps=3000 & pid=$!; for i in $(seq 3000); do " +
      "case $(readlink /proc/$pid/exe) in *trireme-runtime) break;; esac; done; " +
      "kill -USR1 $pid; wait $pid");

  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_THAT(stopped.errors, HasSubstr("which was saved: the same command resumes from there"));
}

TEST_F(Resuming, NeverKeepsCheckpointsThatLieInTheFolderAlone) {
  crash_after_three();
  for (const char* const file : {"metrics.jsonl", "job.yaml", "plan.json", "report.html"})
    std::filesystem::remove(run_ / file);

  const CommandResult run =
      train("--set checkpoint.resume=never --set checkpoint.every=1 --set train.steps=2");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_TRUE(
      std::filesystem::exists(folder_.path() / "runs" / "small.1" / "checkpoints" / "step-3"));
  EXPECT_TRUE(std::filesystem::exists(run_ / "checkpoints" / "step-2"));
  EXPECT_FALSE(std::filesystem::exists(run_ / "checkpoints" / "step-3"));
}

// A run that died before it had written its first files.
TEST_F(Resuming, TakesAFolderThatARunHadHardlyBegun) {
  for (const std::string job : {"", "job.yaml"}) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
    std::ofstream(run_ / "metrics.jsonl");
    if (!job.empty()) std::ofstream(run_ / job) << "name: small\n";

    const CommandResult run = train("");

    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(summary_of(run_)["steps"], 3);
  }
}

TEST_F(Resuming, LeavesAFolderWithMetricsOfItsOwnAlone) {
  std::filesystem::create_directories(run_);
  std::ofstream(run_ / "metrics.jsonl") << "{\"step\": 1}\n";

  const CommandResult run = train("");

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("has a metrics.jsonl, but is no earlier run's folder"));
}

}  // namespace
}  // namespace trireme
