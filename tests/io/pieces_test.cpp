// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/pieces.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/core/error.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace trireme::io {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

TEST(OutputFile, HoldsItsPiecesInTheirOrder) {
  const TemporaryFolder folder;
  OutputFile out(folder / "pieces");
  out.append("first ");
  out.flush();
  out.append(std::as_bytes(std::span("second", 6)));
  EXPECT_EQ(out.size(), Bytes(12));
  out.finish();
  EXPECT_EQ(read_file(folder / "pieces"), "first second");
}

TEST(OutputFile, TakesNoFileThatIsThere) {
  const TemporaryFolder folder;
  write_file(folder / "there", "old");
  EXPECT_THROW(OutputFile(folder / "there"), Error);
  EXPECT_EQ(read_file(folder / "there"), "old");
}

TEST(InputFile, IsReadAtAnyPlaceUpToItsEnd) {
  const TemporaryFolder folder;
  write_file(folder / "digits", "0123456789");
  const InputFile in(folder / "digits");
  std::array<std::byte, 4> four{};
  in.read(four, 6);
  EXPECT_EQ(static_cast<char>(four[0]), '6');
  EXPECT_EQ(static_cast<char>(four[3]), '9');
  EXPECT_THAT(input_error([&] { in.read(four, 7); }),
              HasSubstr("digits: ends at byte 10, must go on for 1 bytes after byte 10"));
  EXPECT_THAT(input_error([&] { InputFile(folder / "none"); }), HasSubstr("none: cannot be read"));
}

TEST(FlushFile, LeavesItAsItIsAndSaysThatItIsGone) {
  const TemporaryFolder folder;
  write_file(folder / "there", "old");
  flush_file(folder / "there");
  EXPECT_EQ(read_file(folder / "there"), "old");
  try {
    flush_file(folder / "gone");
    FAIL() << "was flushed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gone: cannot be written: No such file"));
  }
}

TEST(PublishFolder, GivesAFolderItsName) {
  const TemporaryFolder folder;
  write_file(folder / "draft" / "a", "1");
  publish_folder(folder / "draft", folder / "done");
  EXPECT_EQ(read_file(folder / "done" / "a"), "1");
  EXPECT_FALSE(std::filesystem::exists(folder / "draft"));
}

}  // namespace
}  // namespace trireme::io
