// What crashes, hands and disks leave of a run, as a user meets it.
// SPDX-License-Identifier: Apache-2.0
#include "resuming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace trireme {
namespace {

using testing::HasSubstr;

class BrokenRun : public Resuming {};

TEST_F(BrokenRun, ACheckpointUnderTheNameOfAnotherStepIsRefused) {
  crash_after_three();
  const std::filesystem::path renamed = run_ / "checkpoints" / "step-2";
  std::filesystem::rename(run_ / "checkpoints" / "step-3", renamed);

  const CommandResult run = train("--set checkpoint.every=3 --set train.steps=6");

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("manifest.json: step is 3, must be 2, as in the folder's"));
  EXPECT_THAT(run.errors, HasSubstr("remove " + renamed.string()));
}

}  // namespace
}  // namespace trireme
