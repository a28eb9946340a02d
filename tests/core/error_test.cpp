// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace trireme {
namespace {

TEST(Ensure, IsSilentWhenTheConditionHolds) {
  EXPECT_NO_THROW(ensure(true, "a condition"));
}

TEST(Ensure, NamesWhatShouldHoldAndTheCaller) {
  try {
    ensure(false, "x is positive");
    FAIL() << "ensure(false) must throw";
  } catch (const LogicError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a defect of Trireme: x is positive"));
    EXPECT_THAT(error.what(), testing::HasSubstr("error_test.cpp:"));
  }
}

TEST(Errors, AreAllCaughtAsError) {
  EXPECT_THROW(throw InputError("x"), Error);
  EXPECT_THROW(throw CommError("x"), Error);
  EXPECT_THROW(throw DeviceError("x"), Error);
  EXPECT_THROW(throw Interrupted("x"), Error);
  EXPECT_THROW(throw LogicError("x"), Error);
}

TEST(WordsOf, SayWhatToDoWhereTheSystemsDoNot) {
  EXPECT_THAT(words_of(std::bad_alloc()), testing::HasSubstr("no more memory"));
  EXPECT_THAT(words_of(std::system_error(EAGAIN, std::generic_category())),
              testing::HasSubstr("a thread cannot be started: raise the limits"));
  EXPECT_EQ(words_of(std::system_error(ENOENT, std::generic_category(), "x")),
            "x: No such file or directory");
}

}  // namespace
}  // namespace trireme
