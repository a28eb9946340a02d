// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/scatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace trireme::record {
namespace {

using testing::HasSubstr;
using testing::Not;

/// 100 steps of 0.1 s, each `every`-th of them of `late` seconds, the first of 5 s.
std::vector<Seconds> steps(int every, double late) {
  std::vector<Seconds> all(100, Seconds(0.1));
  for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(every))
    all[i] = Seconds(late);
  all[0] = Seconds(5);
  return all;
}

TEST(ScatterNote, TellsOfStepsThatOftenTakeTwiceTheirTime) {
  const std::string note = scatter_note(steps(5, 0.25), 2);
  EXPECT_THAT(
      note, HasSubstr("note: step times vary: one in ten took over 250 ms, the median is 100 ms"));
  EXPECT_THAT(note, HasSubstr("threads: 1"));
  EXPECT_THAT(scatter_note(steps(5, 0.25), 1), Not(HasSubstr("threads")));
}

TEST(ScatterNote, SaysNothingOfRareOrSmallDelaysOrOfFewSteps) {
  EXPECT_EQ(scatter_note(steps(20, 0.9), 2), "");
  EXPECT_EQ(scatter_note(steps(5, 0.19), 2), "");
  EXPECT_EQ(scatter_note(std::vector<Seconds>{}, 2), "");
  std::vector<Seconds> few = steps(2, 0.9);
  few.resize(20);
  EXPECT_EQ(scatter_note(few, 2), "");
}

}  // namespace
}  // namespace trireme::record
