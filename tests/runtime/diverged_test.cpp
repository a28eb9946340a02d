// Runs whose loss is no number any more.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/small_runs.h"
#include "support/temporary_folder.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace trireme::runtime {
namespace {

TEST(ARunThatDiverges, EndsBeforeACheckpointOfItIsWritten) {
  for (const int stages : {1, 2}) {
    for (const bool in_background : {false, true}) {
      SCOPED_TRACE(testing::Message() << stages << " stages, in the background: " << in_background);
      const support::TemporaryFolder folder;
      config::JobSpec job = small_job(small_gpt());
      job.train.steps = 20;
      job.train.optimizer = {.kind = "sgd", .learning_rate = 1e30};
      job.train.schedule.warmup_steps = 0;
      job.train.clip_norm = 0;
      Checkpointing checkpoints;
      checkpoints.folder = folder.path();
      checkpoints.every = 4;
      checkpoints.in_background = in_background;
      checkpoints.job = "train: {}\n";
      const Split split{.cut = stages == 1 ? std::vector<int>{} : std::vector<int>{3}};
      try {
        run_small(job, split, {}, device::cpu(), checkpoints);
        FAIL() << "its loss is no number";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("is no number: the run has diverged"));
      }
      EXPECT_FALSE(std::filesystem::exists(folder / "step-4"));
    }
  }
}

}  // namespace
}  // namespace trireme::runtime
