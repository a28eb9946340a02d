// SPDX-License-Identifier: Apache-2.0
#include "values/parallel_for.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace trireme::partition {
namespace {

TEST(ParallelFor, AsksEveryOneOnce) {
  std::vector<std::atomic<int>> asked(100);

  parallel_for(asked.size(), [&](std::size_t k) { ++asked[k]; });

  EXPECT_THAT(asked, testing::Each(testing::Eq(1)));
  parallel_for(0, [](std::size_t) { FAIL() << "there is none"; });
}

TEST(ParallelFor, ThrowsTheFirstFailureOnceAllHaveEnded) {
  std::atomic<int> asked = 0;
  const auto ask = [&](std::size_t k) {
    ++asked;
    if (k == 3 || k == 7) throw std::runtime_error(std::to_string(k));
  };

  EXPECT_THAT([&] { parallel_for(10, ask); },
              testing::ThrowsMessage<std::runtime_error>(testing::StrEq("3")));
  EXPECT_EQ(asked, 10);
}

}  // namespace
}  // namespace trireme::partition
