// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/library.h"

#include "support/input_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::io {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const LibraryHelp kHelp{.if_missing = "build it", .if_not_loadable = "install it"};

std::string problem_with(const std::filesystem::path& library, const std::string& entry_point) {
  return support::input_error([&] { load_entry_point(library, entry_point, kHelp); });
}

TEST(OwnFile, OfAnExecutableIsThatOfTheProcess) {
  EXPECT_EQ(own_file(), std::filesystem::read_symlink("/proc/self/exe"));
}

TEST(OwnFile, OfCodeInALoadedLibraryIsThatLibrary) {
  void* const found = load_entry_point(OWN_FILE_LIBRARY, "own_file_of_library", kHelp);
  EXPECT_STREQ(reinterpret_cast<const char* (*)()>(found)(), OWN_FILE_LIBRARY);
}

TEST(LoadEntryPoint, NamesAMissingLibraryAndTheHelpForThat) {
  EXPECT_EQ(problem_with("/nowhere/libx.so", "x"), "/nowhere/libx.so is missing: build it");
}

TEST(LoadEntryPoint, NamesALibraryThatLacksWhatItLinksTheReasonAndTheHelp) {
  EXPECT_THAT(problem_with(LINKS_A_MISSING_LIBRARY, "x"),
              AllOf(HasSubstr(LINKS_A_MISSING_LIBRARY), HasSubstr("cannot be loaded: libgone.so"),
                    HasSubstr("install it")));
}

TEST(LoadEntryPoint, NamesTheFunctionThatALibraryLacks) {
  EXPECT_THAT(problem_with(OWN_FILE_LIBRARY, "another"),
              AllOf(HasSubstr(OWN_FILE_LIBRARY), HasSubstr("has no another")));
}

}  // namespace
}  // namespace trireme::io
