// What all commands have in common as a user types them.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::HasSubstr;

// A script's variable that is not set, or a word that is nearly a command.
TEST(CommandLine, IsNotTakenForSomethingElse) {
  const PlanFolder files;
  const std::string plan = kTrireme + " plan --chain " + files.chain;
  const CommandResult nameless = run_command(plan + " -o ''"),
                      nothing = run_command(plan + " --memory 0"),
                      misspelt = run_command(kTrireme + " paln --chain " + files.chain),
                      version = run_command(kTrireme + " --version");

  EXPECT_EQ(nameless.exit_code, 2);
  EXPECT_THAT(nameless.errors, HasSubstr("-o: is empty, must have a value"));
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.errors, HasSubstr("--memory: is '0', must be a size such as 12GiB"));
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.errors, HasSubstr("'paln' is no command (did you mean 'plan'?)"));
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, testing::StartsWith("trireme 0."));
}

}  // namespace
}  // namespace trireme
