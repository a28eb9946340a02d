// Checkpoints that were changed, of earlier versions, or of runs that diverge, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "resuming.h"

#include "trireme/checkpoint/store.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kTrireme = TRIREME_BINARY;

class DamagedCheckpoint : public Resuming {
 protected:
  DamagedCheckpoint() {
    crash_after_three();
    saved_ = text_of(file_);
  }
  CommandResult resume(const std::string& settings = "") {
    return train("--set checkpoint.every=3 --set train.steps=6 " + settings, "timeout 60");
  }
  CommandResult exported() {
    return run_command(kTrireme + " export " + run_.string() + " -o " +
                       (folder_.path() / "model").string());
  }
  /// Replaces a key's value by `value`.
  void change(const std::string& key, const std::string& value) {
    const std::size_t begin = saved_.find(key + ": ") + key.size() + 2;
    std::string changed = saved_;
    changed.replace(begin, changed.find('\n', begin) - begin, value);
    io::write_file(file_, changed);
  }
  /// As written by versions without a digest of the job.
  void make_earlier() {
    checkpoint::Manifest manifest = checkpoint::load_manifest(folder());
    manifest.job.clear();
    io::write_file(checkpoint::manifest_file(folder()), checkpoint::to_json(manifest));
  }
  std::filesystem::path folder() const { return run_ / "checkpoints" / "step-3"; }

  const std::filesystem::path file_ = folder() / "job.yaml";
  std::string saved_;
};

TEST_F(DamagedCheckpoint, IsKnownByEveryValueOfItsJob) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"heads", "4"}, {"micro_batch", "4"}}) {
    change(key, value);
    for (const CommandResult& refused :
         {resume(), resume("--set train.micro_batch=auto"),
          resume("--set checkpoint.resume=must --set train.steps=9"), exported(),
          run_command(kTrireme + " generate " + run_.string() + " --prompt-tokens 1"),
          run_command(kTrireme + " generate " + folder().string() + " --prompt-tokens 1")}) {
      EXPECT_EQ(refused.exit_code, 2) << key;
      EXPECT_THAT(refused.errors,
                  HasSubstr(file_.string() + ": is not the job that the checkpoint was saved by"));
    }
    const CommandResult run = resume();
    EXPECT_THAT(run.errors, HasSubstr("remove " + folder().string()));
  }
  io::write_file(file_, saved_);
  EXPECT_EQ(exported().exit_code, 0);
  EXPECT_EQ(resume().exit_code, 0);
}

TEST_F(DamagedCheckpoint, OfAnEarlierVersionIsTakenUpAsFarAsItsJobIsOne) {
  make_earlier();
  for (const std::string value : {"0", "-5", "x", "99999999999", "3", "auto"}) {
    change("micro_batch", value);
    const CommandResult run = resume("--set train.micro_batch=auto");
    EXPECT_EQ(run.exit_code, 2) << value;
    EXPECT_THAT(run.errors, StartsWith("trireme: " + file_.string() + ":")) << value;
    EXPECT_THAT(run.errors, HasSubstr(value == "3" ? "train.batch is 8, must be a multiple"
                                                   : "train.micro_batch is " + value));
    EXPECT_THAT(run.errors, HasSubstr("remove " + folder().string()));
  }
  io::write_file(file_, saved_);
  EXPECT_EQ(exported().exit_code, 0);
  const CommandResult run = resume("--set train.micro_batch=auto");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(summary_of(run_)["resumed_after_steps"], 3);
}

/// Learning rates at which the last update overflows, and no loss before it.
class DivergingRun : public Resuming {
 protected:
  CommandResult diverge(const std::string& settings, const std::string& before = "") {
    return train(
        "--set train.clip_norm=0 --set data.validation_fraction=0 --set "
        "'train.optimizer={kind: sgd, learning_rate: 1000, momentum: 0.99}' --set "
        "train.schedule.kind=constant " +
            settings,
        before);
  }
  static void expect_diverged(const CommandResult& run) {
    EXPECT_EQ(run.exit_code, 1) << run.out;
    EXPECT_THAT(run.errors, HasSubstr("is not finite: the run has diverged"));
    EXPECT_THAT(run.out, Not(HasSubstr("parameters digest")));
  }
};

TEST_F(DivergingRun, LeavesACheckpointToGoOnFrom) {
  for (const std::string stages : {"1", "2"}) {
    const std::string settings =
        "--set train.steps=40 --set checkpoint.every=1 --set checkpoint.keep=1 --set "
        "checkpoint.resume=never --set pipeline.stages=" +
        stages + " ";
    expect_diverged(diverge(settings));
    EXPECT_EQ(summary_of(run_).at("ended"), "diverged");
    const CommandResult run = train(
        "--set train.steps=40 --set checkpoint.resume=must --set "
        "'train.optimizer={kind: sgd, learning_rate: 0.001}'");
    EXPECT_THAT(run.out, HasSubstr("resumes from " + (run_ / "checkpoints" / "step-").string()));
    EXPECT_THAT(run.errors, Not(HasSubstr("holds ")));
  }
}

TEST_F(DivergingRun, EndsWithoutSuccessAlsoWhereNothingIsSaved) {
  std::int64_t last = 0;  // the first step whose update overflows
  for (int steps = 1; last == 0 && steps < 40; ++steps) {
    const CommandResult run = diverge("--set train.steps=" + std::to_string(steps));
    if (run.exit_code == 0) continue;
    expect_diverged(run);
    last = steps;
  }
  ASSERT_GT(last, 0);
  EXPECT_EQ(summary_of(run_).at("ended"), "diverged");
  EXPECT_EQ(summary_of(run_).at("ended_in_step"), last);
}

// A refused run leaves nothing, not even a parent folder.
TEST_F(Resuming, ARefusedRunLeavesNoLock) {
  const CommandResult refused = train("--set checkpoint.resume=must");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(run_.parent_path()));

  ASSERT_EQ(train("").exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(run_));
  EXPECT_FALSE(std::filesystem::exists(run_.parent_path() / ".small.lock"));
}

}  // namespace
}  // namespace trireme
