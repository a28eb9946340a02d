// A build without HiGHS says how to get it.
// SPDX-License-Identifier: Apache-2.0
#include "poet/graphs.h"

#include "trireme/core/error.h"
#include "trireme/poet/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::poet {
namespace {

TEST(WithoutHighs, PoetIsRefusedAndGreedyIsNot) {
  const graph::Problem problem = unit_chain(6, 5, 0.25);
  EXPECT_TRUE(std::holds_alternative<Solution>(solve("greedy", problem, {})));
  try {
    solve("poet", problem, {});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("./launch/install"));
  }
}

}  // namespace
}  // namespace trireme::poet
