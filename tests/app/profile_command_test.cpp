// `trireme profile` end to end: real processes, real files.
// SPDX-License-Identifier: Apache-2.0
#include "small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using testing::HasSubstr;

const std::string kTrireme = TRIREME_BINARY;

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(ProfileCommand, WritesAChainThatCanBePlanned) {
  const TemporaryFolder folder;
  const std::string chain = (folder.path() / "chain.yaml").string();

  const CommandResult run =
      run_command(kTrireme + " profile " + small_job(folder) + " -o " + chain);
  const CommandResult check = run_command(kTrireme + " check " + chain);

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("block0.attention x 2"));
  EXPECT_THAT(run.out, HasSubstr("all 6"));
  EXPECT_EQ(check.exit_code, 0) << check.errors;
}

TEST(ProfileCommand, UsesWhatWasMeasuredBefore) {
  const TemporaryFolder folder;
  const std::string command = kTrireme + " profile --json " + small_job(folder);

  const auto first = nlohmann::json::parse(run_command(command).out);
  const auto second = nlohmann::json::parse(run_command(command).out);
  const auto fresh = nlohmann::json::parse(run_command(command + " --fresh").out);

  EXPECT_TRUE(first["measured"]);
  EXPECT_FALSE(second["measured"]);
  EXPECT_EQ(second["chain"], first["chain"]);
  EXPECT_TRUE(fresh["measured"]);
  EXPECT_EQ(fresh["file"], first["file"]);
  EXPECT_EQ(files_in(folder.path() / "runs" / ".profiles"), 1U);
}

TEST(ProfileCommand, MeasuresAgainForAnotherMicroBatch) {
  const TemporaryFolder folder;
  const std::string command = kTrireme + " profile --json " + small_job(folder);

  const auto two = nlohmann::json::parse(run_command(command).out);
  const auto four = nlohmann::json::parse(run_command(command + " --set train.micro_batch=4").out);

  EXPECT_TRUE(four["measured"]);
  EXPECT_EQ(four["chain"]["layers"][1]["output_bytes"],
            2 * two["chain"]["layers"][1]["output_bytes"].get<int>());
}

TEST(ProfileCommand, SaysThatEnergyIsAModelsWhereThereIsNoMeter) {
  const TemporaryFolder folder;
  const std::string command =
      "TRIREME_POWERCAP=/nowhere " + kTrireme + " profile " + small_job(folder);
  EXPECT_THAT(run_command(command).out, HasSubstr("\nenergy: model (no meter can be read: "));
  EXPECT_EQ(nlohmann::json::parse(run_command(command + " --json").out)["energy"], "model");
}

TEST(ProfileCommand, DoesNotTouchTheRunFolder) {
  const TemporaryFolder folder;

  run_command(kTrireme + " profile " + small_job(folder));

  EXPECT_FALSE(std::filesystem::exists(small_run(folder)));
}

TEST(ProfileCommand, AnswersWhereNothingCanBeKept) {
  const TemporaryFolder folder;
  const std::string chain = (folder.path() / "chain.yaml").string();
  const std::string job = small_job(folder);
  std::filesystem::create_directories(folder.path() / "runs");
  folder.file("runs/.profiles", "no folder");

  const CommandResult run = run_command(kTrireme + " profile " + job + " -o " + chain);

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("all 6"));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("stored in")));
  EXPECT_THAT(run.errors, HasSubstr("note: measured, but not stored for the next time: "));
  EXPECT_EQ(run_command(kTrireme + " check " + chain).exit_code, 0);
  const CommandResult json = run_command(kTrireme + " profile --json " + job);
  EXPECT_EQ(nlohmann::json::parse(json.out)["file"], "");
}

TEST(ProfileCommand, FailsWhereItsAnswerDoesNotArrive) {
  const TemporaryFolder folder;
  const CommandResult result =
      run_command(kTrireme + " profile --json " + small_job(folder) + " > /dev/full");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, testing::HasSubstr("standard output: cannot be written"));
}

TEST(ProfileCommand, RefusesBadInput) {
  const CommandResult missing = run_command(kTrireme + " profile /no/such/job.yaml");

  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.errors, HasSubstr("/no/such/job.yaml"));
}

}  // namespace
}  // namespace trireme
