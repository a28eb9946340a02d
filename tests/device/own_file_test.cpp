// SPDX-License-Identifier: Apache-2.0
#include "trireme/device/own_file.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace trireme::device {
namespace {

void in_this_test() {}

TEST(OwnFile, OfAProgramIsTheProgram) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");

  EXPECT_EQ(own_file(), program);
  EXPECT_EQ(file_of_code(reinterpret_cast<const void*>(&in_this_test)), program);
}

TEST(OwnFile, OfALibrarysCodeIsTheLibrary) {
  const void* const code = ::dlsym(RTLD_DEFAULT, "malloc_usable_size");
  ASSERT_NE(code, nullptr);

  EXPECT_EQ(file_of_code(code).filename(), "libc.so.6");
}

TEST(OwnFile, OfNoCodeIsEmpty) {
  const int on_the_stack = 0;
  EXPECT_EQ(file_of_code(&on_the_stack), "");
}

}  // namespace
}  // namespace trireme::device
