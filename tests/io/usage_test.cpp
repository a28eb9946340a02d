// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/usage.h"

#include <gtest/gtest.h>

namespace trireme::io {
namespace {

const std::string kHelp = "\nRun trireme generate --help for more information.\n";

std::string told(const std::vector<std::string>& unread) {
  return to_text(Misuse{.message = "not read",
                        .command = "trireme generate",
                        .options = {"--prompt", "--temperature", "-h"},
                        .unread = unread});
}

TEST(Usage, NamesTheNearestOption) {
  const std::string told_of =
      "trireme: there is no option --temprature (did you mean '--temperature'?)" + kHelp;
  EXPECT_EQ(told({"0.8", "--temprature"}), told_of);
  EXPECT_EQ(told({"--temprature=0.8"}), told_of);
  EXPECT_EQ(told({"--xyz"}), "trireme: there is no option --xyz" + kHelp);
}

TEST(Usage, NamesTheArgumentThatIsTooMuch) {
  EXPECT_EQ(told({"a\nb"}), "trireme: unexpected argument 'a\\nb'" + kHelp);
  EXPECT_EQ(told({}), "trireme: not read" + kHelp);
}

}  // namespace
}  // namespace trireme::io
