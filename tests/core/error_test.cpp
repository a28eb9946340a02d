// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace trireme
