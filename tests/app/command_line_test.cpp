// Command-line errors that all commands have in common.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trireme {
namespace {

using testing::HasSubstr;

// A script's variable that is not set, or a misspelled command.
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
  const CommandResult option = run_command(plan + " --memroy 1");
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_EQ(
      option.errors,
      "trireme: there is no option --memroy (did you mean '--memory'?)\nRun trireme plan --help "
      "for more information.\n");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, testing::StartsWith("trireme 0."));
}

TEST(CommandLine, NamesTheFirstWordThatIsNoCommandWhateverFollows) {
  for (const std::string rest : {"", " --chain a.yaml", " plan --chain a.yaml", " --help"}) {
    const CommandResult result = run_command(kTrireme + " chekc" + rest);
    EXPECT_EQ(result.exit_code, 2) << rest;
    EXPECT_EQ(result.out, "") << rest;
    EXPECT_EQ(result.errors,
              "trireme: 'chekc' is no command (did you mean 'check'?), must be one of train, "
              "profile, export, generate, pack-images, plan, simulate, check\n");
  }
  for (const auto& [words, error] : std::vector<std::pair<std::string, std::string>>{
           {"", "A subcommand is required"},
           {" ''", "'' is no command"},
           {" --chian a.yaml", "there is no option --chian"}}) {
    const CommandResult result = run_command(kTrireme + words);
    EXPECT_EQ(result.exit_code, 2) << words;
    EXPECT_THAT(result.errors, HasSubstr(error)) << words;
  }
}

// Chain files are passed around: their text must not control the terminal of a reader.
TEST(CommandLine, ShowsNoControlCharactersOfFilesAndArguments) {
  const PlanFolder files;
  std::string chain = text_of(files.chain);
  const std::size_t name = chain.find("name: ");
  chain.replace(name, chain.find('\n', name) - name, "name: \"\\e[2J\\x9b31m\\na\"");
  const std::string bad = files.folder.file("bad.yaml", chain);
  const std::string plan = kTrireme + " plan --chain ";
  for (const std::string& command :
       {plan + bad, plan + "'x\x1b[2J\n\r.yaml'", plan + files.chain + " --solver 'a\x1b\nb'",
        plan + files.chain + " '--no\x1b\nsuch'", kTrireme + " '\x1b\nx'"}) {
    const CommandResult run = run_command(command);
    EXPECT_EQ(run.exit_code, 2) << command;
    const std::string said = run.out + run.errors;
    for (const char* const control : {"\x1b", "\r", "\xc2\x9b"})
      EXPECT_THAT(said, testing::Not(HasSubstr(control)));
    EXPECT_THAT(said, HasSubstr("\\u001b"));
  }
}

}  // namespace
}  // namespace trireme
