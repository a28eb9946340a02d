// Background checkpoints: what they hold, and what is left if they fail.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/error.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trireme::runtime {
namespace {

using support::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

/// Records what was saved; fails when it is told of step `fails_at`.
class Noting final : public Observer {
 public:
  void saved(const SavedCheckpoint& checkpoint) override {
    steps.push_back(checkpoint.step);
    EXPECT_LE(checkpoint.held, checkpoint.time);
    EXPECT_TRUE(std::filesystem::exists(checkpoint.folder));
  }
  void step(const record::StepMetrics& metrics) override {
    if (metrics.step == fails_at) throw Error("the observer has failed");
  }
  void started(Seconds /*since_start*/) override {}
  void interval_ended() override {}
  void validation(std::int64_t /*step*/, double /*loss*/) override {}

  std::int64_t fails_at = 0;
  std::vector<std::int64_t> steps;
};

struct Case {
  std::string name;
  config::ModelSpec model = small_gpt();
  std::string precision = "float32";
  Split split = {};
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

Checkpointing every_step(const TemporaryFolder& folder, bool in_background) {
  Checkpointing checkpoints;
  checkpoints.folder = folder.path();
  checkpoints.every = 1;
  checkpoints.keep = 9;
  checkpoints.job = "train: {}\n";
  checkpoints.in_background = in_background;
  return checkpoints;
}

class BackgroundSave : public testing::TestWithParam<Case> {};

// Every tensor as it was after its step, whatever later steps do meanwhile.
TEST_P(BackgroundSave, HoldsWhatOneAtOnceHolds) {
  const Case& each = GetParam();
  const TemporaryFolder at_once, beside;
  config::JobSpec job = small_job(each.model);
  job.train.steps = 4;
  job.train.precision = each.precision;
  Noting noted;

  const RunSummary plain =
      run_small(job, each.split, {}, device::cpu(), every_step(at_once, false));
  const RunSummary run =
      run_small(job, each.split, {}, device::cpu(), every_step(beside, true), &noted);

  EXPECT_EQ(run.parameters_digest, plain.parameters_digest);
  EXPECT_THAT(noted.steps, ElementsAre(1, 2, 3, 4));
  std::set<std::string> digests;
  for (const char* const step : {"step-1", "step-2", "step-3", "step-4"}) {
    const checkpoint::Manifest a = checkpoint::load_manifest(at_once / step),
                               b = checkpoint::load_manifest(beside / step);
    ASSERT_EQ(a.tensors.size(), b.tensors.size());
    for (const auto& [name, entry] : a.tensors) {
      EXPECT_EQ(entry.digest, b.tensors.at(name).digest) << step << ' ' << name;
      EXPECT_EQ(entry.part_of, b.tensors.at(name).part_of) << name;
    }
    EXPECT_EQ(checkpoint::incomplete_file(b, beside / step), std::nullopt);
    digests.insert(b.tensors.at("losses").digest);
  }
  EXPECT_EQ(digests.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(
    Of, BackgroundSave,
    testing::Values(
        Case{.name = "one_stage"}, Case{.name = "stages", .split = {.cut = {2, 4}}},
        Case{.name = "bfloat16_weights", .precision = "bfloat16_weights", .split = {.cut = {3}}},
        Case{.name = "adapters", .model = with_adapters(), .split = {.cut = {3}}},
        Case{.name = "replicas", .split = {.cut = {3}, .replicas = 2}},
        Case{.name = "batch_norm_of_replicas",
             .model = small_mlp(),
             .split = {.cut = {2}, .replicas = 2}}),
    [](const auto& each) { return each.param.name; });

TEST(BackgroundSave, ThatIsNotFinishedLeavesNothing) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(small_gpt());
  job.train.steps = 4;
  Noting noted;
  noted.fails_at = 3;

  EXPECT_THROW(run_small(job, {}, {}, device::cpu(), every_step(folder, true), &noted), Error);

  // That of step 2 was begun, and would have been seen after step 3.
  EXPECT_THAT(noted.steps, ElementsAre(1));
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left.insert(entry.path().filename().string());
  EXPECT_THAT(left, ElementsAre("step-1"));
}

TEST(BackgroundSave, WhereThereCanBeNoFolderEndsEveryRankWithTheReason) {
  const TemporaryFolder folder;
  io::write_file(folder / "file", "");
  Checkpointing checkpoints = every_step(folder, true);
  checkpoints.folder = folder / "file" / "checkpoints";
  try {
    run_small(small_job(small_gpt()), {.cut = {3}}, {}, device::cpu(), checkpoints);
    FAIL() << "was saved";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("step-1.draft: cannot be created: Not a directory"));
  }
}

}  // namespace
}  // namespace trireme::runtime
