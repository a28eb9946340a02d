// Runs whose files were made by others, or whose own files disappear.
// SPDX-License-Identifier: Apache-2.0
#include "small_job.h"

#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const std::string kTrireme = TRIREME_BINARY;

std::string train(const TemporaryFolder& folder, const std::string& more = "") {
  return kTrireme + " train " + small_job(folder) + " " + more;
}

/// A disk on which a flush takes longer than any rank waits.
class SlowDisk : public testing::TestWithParam<const char*> {};

TEST_P(SlowDisk, EndsNoJob) {
  const TemporaryFolder folder;
  const CommandResult run =
      run_command(concat("ASAN_OPTIONS=verify_asan_link_order=0 SLOW_FSYNC=", GetParam(),
                         " SLOW_SECONDS=7 LD_PRELOAD=", SLOW_FSYNC_LIBRARY, " ",
                         train(folder,
                               "--set pipeline.stages=2 --set pipeline.timeout=5s "
                               "--set checkpoint.every=3 --set checkpoint.background=false")));

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_TRUE(fs::exists(small_run(folder) / "checkpoints/step-3/manifest.json"));
}

INSTANTIATE_TEST_SUITE_P(Files, SlowDisk,
                         testing::Values("/rank-1", ".job.yaml.", ".manifest.json.",
                                         ".summary.json."));

TEST(RunFolder, ThatIsDeletedEndsTheRunAtTheNextCheckpoint) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder), run = small_run(folder).string();
  // Once the first checkpoint is reported, the folder is removed, at whatever moment of the run.
  const CommandResult result = run_command(
      concat("bash -c '", kTrireme, " train ", job,
             " --set train.steps=1000000 --set checkpoint.every=50 --set report.log_every=1 | "
             "(sed -n \"/checkpoint of/q\"; mv ",
             run, " ", run, "-renamed; cat); exit ${PIPESTATUS[0]}'"));

  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_THAT(result.errors, HasSubstr(run));
  EXPECT_TRUE(fs::exists(run + "-renamed/checkpoints/step-50/manifest.json"));
}

TEST(RunFolder, HasNoLinkThroughWhichARunWrites) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(train(folder, "--set checkpoint.every=2")).exit_code, 0);
  fs::remove(small_run(folder) / "summary.json");  // so that it resumes
  std::vector<fs::path> links;
  for (const char* const name : {"job.yaml", "plan.json", "metrics.jsonl", "report.html"}) {
    const fs::path user = folder.path() / concat("user-", name);
    fs::rename(small_run(folder) / name, user);
    fs::create_symlink(user, small_run(folder) / name);
    links.push_back(user);
  }
  const std::string lock = folder.file("user-lock", "precious");
  fs::remove(small_run(folder).parent_path() / ".small.lock");
  fs::create_symlink(lock, small_run(folder).parent_path() / ".small.lock");
  std::vector<std::string> before;
  for (const fs::path& user : links) before.push_back(text_of(user));

  const CommandResult run = run_command(
      train(folder, "--set train.steps=6 --set checkpoint.every=2 --set checkpoint.resume=must"));

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  for (std::size_t i = 0; i < links.size(); ++i)
    EXPECT_EQ(text_of(links[i]), before[i]) << links[i];
  EXPECT_EQ(text_of(lock), "precious");
  EXPECT_FALSE(fs::is_symlink(small_run(folder) / "metrics.jsonl"));
}

TEST(RunFolder, MayBeALinkToAFolder) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "scratch");
  fs::create_directories(small_run(folder).parent_path());
  fs::create_directory_symlink(folder.path() / "scratch", small_run(folder));

  EXPECT_EQ(run_command(train(folder)).exit_code, 0);
  EXPECT_TRUE(fs::exists(folder.path() / "scratch/summary.json"));
}

TEST(Weights, WithAPipeAmongTheirFilesAreRefused) {
  for (const char* const pipe :
       {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    const TemporaryFolder folder;
    folder.file("config.json",
                R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 256,
                    "n_positions": 32, "n_embd": 48, "n_layer": 2, "n_head": 3})");
    fs::remove(folder.path() / pipe);
    ASSERT_EQ(::mkfifo((folder.path() / pipe).c_str(), 0600), 0);

    const CommandResult run =
        run_command(train(folder, concat("--set 'model={weights: ", folder.path().string(), "}'")));

    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.errors, HasSubstr(concat(pipe, ": is not a regular file")));
  }
}

TEST(Checkpoint, WithAPipeInItIsRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(train(folder, "--set checkpoint.every=3")).exit_code, 0);
  const fs::path manifest = small_run(folder) / "checkpoints/step-3/manifest.json";
  fs::remove(manifest);
  ASSERT_EQ(::mkfifo(manifest.c_str(), 0600), 0);

  const CommandResult run = run_command(kTrireme + " export " + small_run(folder).string() +
                                        " -o " + (folder.path() / "out").string());

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("manifest.json: is not a regular file"));
}

TEST(Job, MayComeThroughAPipeOfTheShellButNotByOneThatNobodyWrites) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder), pipe = (folder.path() / "pipe.yaml").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);

  const CommandResult shell =
      run_command("bash -c '" + kTrireme + " train <(cat " + job + ") --set name=small'");
  const CommandResult standard =
      run_command("cat " + job + " | " + kTrireme + " train /dev/stdin --set name=small");
  const CommandResult nobody = run_command(kTrireme + " train " + pipe);

  EXPECT_EQ(shell.exit_code, 0) << shell.errors;
  EXPECT_EQ(standard.exit_code, 0) << standard.errors;
  EXPECT_EQ(nobody.exit_code, 2);
  EXPECT_THAT(nobody.errors, HasSubstr("pipe.yaml: is not a regular file"));
}

TEST(Metrics, AreThoseOfTheRunWhereStandardDescriptorsAreClosed) {
  for (const char* const closed : {">&- 2>&-", "<&- >&- 2>&-"}) {
    const TemporaryFolder folder;
    const CommandResult run =
        run_command(train(folder, "--set report.log_every=1 --set train.steps=20 ") + closed);

    EXPECT_EQ(run.exit_code, 0);
    std::istringstream metrics(text_of(small_run(folder) / "metrics.jsonl"));
    int steps = 0;
    for (std::string line; std::getline(metrics, line); ++steps)
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
    EXPECT_GE(steps, 20);
  }
}

TEST(Paths, AreNotThoseThatAShellWouldHaveExpanded) {
  const TemporaryFolder folder;
  for (const char* const path : {"~/runs/a", "$HOME/runs/a"}) {
    const CommandResult run =
        run_command(concat("cd ", folder.path().string(), " && ",
                           train(folder, concat("--set 'report.directory=", path, "'"))));
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.errors, HasSubstr(concat("report.directory is ", path, ", but ")));
    const CommandResult page = run_command(train(folder, concat("--report '", path, ".html'")));
    EXPECT_EQ(page.exit_code, 2);
    EXPECT_THAT(page.errors, HasSubstr(concat("--report: is ", path, ".html, but ")));
  }
  EXPECT_FALSE(fs::exists(folder.path() / "~"));
}

TEST(Paths, OfAnswersAreNotThoseOfWhatIsRead) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::string before = text_of(job);
  for (const char* const command :
       {" train --report ", " train --trace ", " check -o ", " check --report ", " profile -o "}) {
    const CommandResult run = run_command(concat(kTrireme, command, job, " ", job));
    EXPECT_EQ(run.exit_code, 2) << command;
    EXPECT_THAT(run.errors, HasSubstr("as the job does: give each a file of its own")) << command;
  }
  EXPECT_EQ(text_of(job), before);
}

TEST(Words, OfOthersAreShownInOneLine) {
  const TemporaryFolder folder;
  const std::string name = "no\x1b[2J\nsuch\r\x07.yaml";
  const CommandResult run =
      run_command(kTrireme + " train '" + (folder.path() / name).string() + "'");

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("no\\u001b[2J\\nsuch\\r\\u0007.yaml: cannot be read"));
  EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 1);
  EXPECT_THAT(run.errors, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace trireme
