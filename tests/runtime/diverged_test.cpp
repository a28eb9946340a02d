// Runs whose loss is no number any more.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/small_runs.h"
#include "step_history.h"
#include "support/temporary_folder.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace trireme::runtime {
namespace {

using testing::HasSubstr;

/// A run with `checkpoints` under `folder`, of steps that are far too long; what it ends with.
std::string end_of(config::JobSpec job, const Split& split, const Checkpointing& checkpoints) {
  job.train.optimizer = {.kind = "sgd", .learning_rate = 1e30};
  job.train.schedule.warmup_steps = 0;
  job.train.clip_norm = 0;
  try {
    run_small(job, split, {}, device::cpu(), checkpoints);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Checkpointing every(int steps, const support::TemporaryFolder& folder) {
  Checkpointing checkpoints;
  checkpoints.folder = folder.path();
  checkpoints.every = steps;
  checkpoints.job = "train: {}\n";
  return checkpoints;
}

TEST(ARunThatDiverges, EndsBeforeACheckpointOfItIsWritten) {
  for (const int stages : {1, 2}) {
    for (const bool in_background : {false, true}) {
      SCOPED_TRACE(testing::Message() << stages << " stages, in the background: " << in_background);
      const support::TemporaryFolder folder;
      config::JobSpec job = small_job(small_gpt());
      job.train.steps = 20;
      Checkpointing checkpoints = every(4, folder);
      checkpoints.in_background = in_background;
      const Split split{.cut = stages == 1 ? std::vector<int>{} : std::vector<int>{3}};
      EXPECT_THAT(end_of(job, split, checkpoints), HasSubstr("is no number: the run has diverged"));
      EXPECT_FALSE(std::filesystem::exists(folder / "step-4"));
    }
  }
}

// The loss of a step is of the weights before its update: the validation is the first to see what
// the checkpoint would hold.
TEST(ARunThatDiverges, EndsBeforeACheckpointThatItsValidationTellsIsWorthless) {
  for (const int stages : {1, 2}) {
    SCOPED_TRACE(testing::Message() << stages << " stages");
    const support::TemporaryFolder folder;
    config::JobSpec job = small_job(small_gpt());
    job.train.steps = 1;
    job.train.validate_every = 1;
    const Split split{.cut = stages == 1 ? std::vector<int>{} : std::vector<int>{3}};
    EXPECT_THAT(end_of(job, split, every(1, folder)),
                HasSubstr("the validation loss after step 1 is no number"));
    EXPECT_FALSE(std::filesystem::exists(folder / "step-1"));
  }
}

TEST(ARunThatDiverges, IsKnownByItsGradientBeforeItsLoss) {
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  StepRecord fine, spoilt, lost;
  fine.step = 1;
  fine.gradient_norm = 3;
  spoilt.step = 2;
  spoilt.gradient_norm = no_number;
  lost.step = 3;
  lost.loss = no_number;
  EXPECT_EQ(first_lost({fine, fine}), std::nullopt);
  EXPECT_EQ(first_lost({fine, spoilt, lost}), "the gradient of step 2");
  EXPECT_EQ(first_lost({fine, lost, spoilt}), "the loss of step 3");
}

}  // namespace
}  // namespace trireme::runtime
