// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/terminal.h"

#include "support/command.h"

#include "trireme/io/node.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>

namespace trireme::io {
namespace {

std::string written(const std::string& text) {
  std::ostringstream out;
  {
    const VisibleOutput visible(out);
    out << text;
  }
  return out.str();
}

TEST(VisibleOutput, EscapesWhatWouldSteerATerminal) {
  EXPECT_EQ(written("\x1b[2J\x07\b\r\x7f\xc2\x9b"
                    "31m"),
            "\\u001b[2J\\u0007\\u0008\\r\\u007f\\u009b31m");
  EXPECT_EQ(written("\xe2\x80\xae"
                    "fdp"),
            "\\u202efdp");
}

TEST(VisibleOutput, LeavesOurLinesAndEverybodysLettersAlone) {
  const std::string text = "a\tb\n\xc3\xa9 \xe5\xb1\x82 \xd7\x90 \xf0\x9f\x9a\xa3\n";
  EXPECT_EQ(written(text), text);
}

TEST(VisibleOutput, DoesNotMindInWhichPiecesCharactersCome) {
  const std::string text = "\xf0\x9f\x9a\xa3\xc2\x9b\xff\xe2\x82x\xe2\x80\xae\xe2\x82";
  const std::string whole = written(text);
  EXPECT_EQ(whole, "\xf0\x9f\x9a\xa3\\u009b\\xff\\xe2\\x82x\\u202e\\xe2\\x82");
  std::ostringstream out;
  {
    const VisibleOutput visible(out);
    for (const char c : text) out << c << std::flush;
  }
  EXPECT_EQ(out.str(), whole);
}

TEST(VisibleOutput, KeepsTheMeaningOfJson) {
  const std::string name =
      "a\xc2\x9b"
      "b\xe2\x80\xae";
  EXPECT_EQ(parse(written("[" + json_text(name) + "]"), "x.json").list().at(0).text(), name);
}

TEST(VisibleOutput, IsPassedByWhatIsWrittenAsItIs) {
  std::ostringstream out;
  {
    const VisibleOutput visible(out);
    out << "a";
    write_as_is(out, "\r\x1b[K");
    out << "b";
  }
  write_as_is(out, "\x1b");
  EXPECT_EQ(out.str(), "a\r\x1b[Kb\x1b");
}

TEST(OpenStandardDescriptors, LeavesNoneToTheNextFile) {
  // In a process of its own: this one's are in use.
  EXPECT_EXIT(
      {
        for (const int number : {0, 1, 2}) ::close(number);
        open_standard_descriptors();
        const int next = ::open("/dev/null", O_RDONLY);
        std::_Exit(next > 2 && ::write(1, "x", 1) == 1 && ::write(2, "x", 1) == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(OpenStandardDescriptors, TakesNothingInTheOthersPlace) {
  const TemporaryFolder folder;
  const std::string file = folder.file("kept", "");
  EXPECT_EXIT(
      {
        ::close(1);
        ::open(file.c_str(), O_WRONLY);  // is standard output now
        ::close(0);
        open_standard_descriptors();
        std::_Exit(::write(1, "there", 5) == 5 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(text_of(file), "there");
}

}  // namespace
}  // namespace trireme::io
