// Resuming from a checkpoint, compared with the same run without a break: the same bits, in any
// split.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::runtime {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

constexpr int kBreak = 3;

/// Six steps, with a warm-up and then a cosine.
config::JobSpec job_of(config::ModelSpec model) {
  config::JobSpec job = small_job(std::move(model));
  job.train.steps = 2 * kBreak;
  return job;
}

/// Trains all steps, a checkpoint in the middle and at the end.
RunSummary run_and_save(const config::JobSpec& job, const Split& split,
                        const TemporaryFolder& folder) {
  Checkpointing checkpoints;
  checkpoints.folder = folder.path();
  checkpoints.every = kBreak;
  checkpoints.job = "train: {}\n";
  return run_small(job, split, {}, device::cpu(), checkpoints);
}

RunSummary run_resumed(const config::JobSpec& job, const Split& split,
                       const std::filesystem::path& checkpoint) {
  Checkpointing checkpoints;
  checkpoints.resume = checkpoint;
  return run_small(job, split, {}, device::cpu(), checkpoints);
}

void expect_same_run(const RunSummary& run, const RunSummary& reference) {
  EXPECT_EQ(run.steps, reference.steps);
  EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
  EXPECT_EQ(run.losses_digest, reference.losses_digest);
  EXPECT_EQ(run.train_loss, reference.train_loss);
  EXPECT_EQ(run.validation_loss, reference.validation_loss);
}

struct Case {
  std::string name;
  config::ModelSpec model = small_gpt();
  std::string precision = "float32", optimizer = "adamw";
  double momentum = 0.9;
  Split before = {}, after = {};
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

std::vector<Case> cases() {
  return {{.name = "adapters", .model = with_adapters(), .after = {.cut = {1, 4}}},
          {.name = "adapters_beside_bfloat16",
           .model = with_adapters(),
           .precision = "bfloat16_weights",
           .before = {.cut = {3}}},
          {.name = "gpt_one_stage"},
          {.name = "gpt_from_one_stage_to_three", .after = {.cut = {1, 4}}},
          {.name = "gpt_from_three_stages_to_one", .before = {.cut = {2, 4}}},
          // The tied weight's first and last use: on one rank, then on two.
          {.name = "gpt_other_cut_schedule_and_policy",
           .before = {.cut = {5}},
           .after = {.cut = {1, 3, 5}, .schedule = "gpipe", .recompute = true}},
          {.name = "gpt_ranks_with_several_stages",
           .before = {.cut = {2, 4}, .ranks = {0, 1, 0}},
           .after = {.cut = {3}}},
          {.name = "gpt_bfloat16_weights",
           .precision = "bfloat16_weights",
           .before = {.cut = {3}},
           .after = {.cut = {2}}},
          {.name = "gpt_sgd", .optimizer = "sgd", .after = {.cut = {3}}},
          {.name = "gpt_sgd_without_momentum", .optimizer = "sgd", .momentum = 0},
          {.name = "batch_norm", .model = small_mlp(), .after = {.cut = {2}}},
          {.name = "batch_norm_of_two_replicas",
           .model = small_mlp(),
           .before = {.replicas = 2},
           .after = {.cut = {1}, .replicas = 2}}};
}

class Resumed : public testing::TestWithParam<Case> {};

TEST_P(Resumed, GivesTheBitsOfARunWithoutABreak) {
  const Case& each = GetParam();
  const TemporaryFolder folder;
  config::JobSpec job = job_of(each.model);
  job.train.precision = each.precision;
  job.train.optimizer.kind = each.optimizer;
  job.train.optimizer.momentum = each.momentum;
  const RunSummary plain = run_small(job, each.before);

  const RunSummary saved = run_and_save(job, each.before, folder);
  const RunSummary resumed = run_resumed(job, each.after, folder / "step-3");

  expect_same_run(saved, plain);
  expect_same_run(resumed, plain);
}

INSTANTIATE_TEST_SUITE_P(Runs, Resumed, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

TEST(Checkpoint, OfOneRunIsTheSameForEverySplit) {
  const TemporaryFolder one, two;
  run_and_save(job_of(small_gpt()), {}, one);
  run_and_save(job_of(small_gpt()), {.cut = {1, 3, 5}}, two);
  const checkpoint::Manifest a = checkpoint::load_manifest(one / "step-6"),
                             b = checkpoint::load_manifest(two / "step-6");
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, entry] : a.tensors)
    EXPECT_EQ(entry.digest, b.tensors.at(name).digest) << name;
  EXPECT_EQ(a.ties, b.ties);
}

/// Defects of a checkpoint, or of the job that resumes from it, on three ranks.
class Unfit : public testing::Test {
 protected:
  Unfit() { run_and_save(job_of(small_gpt()), {.cut = {3}}, folder_); }
  std::string error_of(const config::JobSpec& job) {
    return input_error([&] { run_resumed(job, {.cut = {2, 4}}, folder_ / "step-3"); });
  }
  TemporaryFolder folder_;
};

TEST_F(Unfit, DamagedFileIsNamed) {
  const auto file = folder_ / "step-3" / "rank-1.safetensors";
  std::string bytes = io::read_file(file);
  bytes[bytes.size() - 9] ^= 1;
  io::write_file(file, bytes);
  EXPECT_THAT(error_of(job_of(small_gpt())), HasSubstr("rank-1.safetensors: tensor '"));
}

TEST_F(Unfit, MissingFileIsNamed) {
  std::filesystem::remove(folder_ / "step-3" / "rank-0.safetensors");
  EXPECT_THAT(error_of(job_of(small_gpt())), HasSubstr("rank-0.safetensors: cannot be read"));
}

TEST_F(Unfit, StepsWithoutTheirLossesAreRefused) {
  checkpoint::Manifest manifest = checkpoint::load_manifest(folder_ / "step-3");
  manifest.step = 4;
  io::write_file(checkpoint::manifest_file(folder_ / "step-3"), checkpoint::to_json(manifest));
  EXPECT_THAT(error_of(job_of(small_gpt())),
              HasSubstr("manifest.json: step is 4, but the checkpoint has the losses of 3 steps"));
}

TEST_F(Unfit, WiderModelIsRefused) {
  config::GptSpec wider = small_gpt();
  wider.width = 64;
  EXPECT_THAT(error_of(job_of(wider)), HasSubstr("this job's is F32 ["));
}

TEST_F(Unfit, LongerModelIsRefused) {
  config::GptSpec longer = small_gpt();
  longer.blocks = 3;
  EXPECT_THAT(error_of(job_of(longer)), HasSubstr("has no tensor 'parameters/block2."));
}

TEST_F(Unfit, ShorterModelIsRefused) {
  config::GptSpec shorter = small_gpt();
  shorter.blocks = 1;
  EXPECT_THAT(input_error([&] { run_resumed(job_of(shorter), {.cut = {2}}, folder_ / "step-3"); }),
              HasSubstr("has 'parameters/block1."));
}

TEST_F(Unfit, OptimizerWithOtherMomentsIsRefused) {
  config::JobSpec job = job_of(small_gpt());
  job.train.optimizer.kind = "sgd";
  job.train.optimizer.momentum = 0;
  EXPECT_EQ(input_error([&] { run_resumed(job, {}, folder_ / "step-3"); }),
            "no InputError was thrown");  // fewer moments are fresh ones left out
  const TemporaryFolder plain;
  run_and_save(job, {}, plain);
  EXPECT_THAT(input_error([&] { run_resumed(job_of(small_gpt()), {}, plain / "step-3"); }),
              HasSubstr("has no tensor 'first_moments/"));
}

/// Checks the checkpoint folder when it is told that one is about to be published.
class Settling final : public Observer {
 public:
  explicit Settling(const TemporaryFolder& folder) : folder_(folder) {}
  void step(const record::StepMetrics& metrics) override { told_ = metrics.step; }
  void saving() override {
    const int step = kBreak * ++count;
    EXPECT_GE(told_, step);
    EXPECT_FALSE(std::filesystem::exists(folder_ / concat("step-", step)));
  }
  void saved(const SavedCheckpoint& checkpoint) override {
    EXPECT_EQ(checkpoint.step, kBreak * count);
  }
  void started(Seconds /*since_start*/) override {}
  void interval_ended() override {}
  void validation(std::int64_t /*step*/, double /*loss*/) override {}

  int count = 0;

 private:
  const TemporaryFolder& folder_;
  std::int64_t told_ = 0;
};

// So that records can be on disk before it: nothing reports them again.
TEST(Saving, IsSaidAfterItsStepsAndBeforeItsCheckpoint) {
  for (const bool in_background : {false, true}) {
    const TemporaryFolder folder;
    Checkpointing checkpoints;
    checkpoints.folder = folder.path();
    checkpoints.every = kBreak;
    checkpoints.in_background = in_background;
    Settling observer(folder);
    run_small(job_of(small_gpt()), {.cut = {3}}, {}, device::cpu(), checkpoints, &observer);
    EXPECT_EQ(observer.count, 2);
  }
}

TEST(Saving, WhereThereCanBeNoFolderEndsEveryRankWithTheReason) {
  const TemporaryFolder folder;
  io::write_file(folder / "file", "");
  Checkpointing checkpoints;
  checkpoints.folder = folder / "file" / "checkpoints";
  checkpoints.every = kBreak;
  try {
    run_small(job_of(small_gpt()), {.cut = {3}}, {}, device::cpu(), checkpoints);
    FAIL() << "was saved";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("step-3.draft: cannot be created: Not a directory"));
  }
}

}  // namespace
}  // namespace trireme::runtime
