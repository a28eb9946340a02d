// Parts of optimizer state that are copied in, updated and copied out.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/passing_parts.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::program {
namespace {

/// "+" for each part that begins to be copied in, "u" for one that is used, "-" for one whose copy
/// out has to have ended.
std::string moves(std::size_t count, int at_once) {
  PassingParts parts(count, {.size = Bytes(1), .at_once = at_once});
  std::string text;
  const auto bring = [&] {
    while (parts.begin_next()) text += '+';
    EXPECT_LE(parts.begun() - parts.gone(), static_cast<std::size_t>(at_once));
  };
  bring();
  for (std::size_t k = 0; k < count; ++k) {
    EXPECT_GT(parts.begun(), k);
    text += 'u';
    if (parts.use_next()) text += '-';
    bring();
  }
  while (parts.leave_next()) text += '-';
  EXPECT_EQ(parts.gone(), count);
  return text;
}

TEST(PassingParts, OfThreeOneComesOneIsUsedAndOneLeaves) {
  EXPECT_EQ(moves(5, 3), "++u+u-+u-+u-u--");
}

// By hand: once one is copied out there is room for six, three of which may be on their way out;
// the fourth that is used has to wait for the first.
TEST(PassingParts, OfSixThreeMayLeave) {
  EXPECT_EQ(moves(9, 6), "+++u+++uuu-+u-+u-+u-u-u----");
}

TEST(PassingParts, AreNoMoreThanThereAre) {
  EXPECT_EQ(moves(0, 3), "");
  EXPECT_EQ(moves(1, 6), "+u-");
}

TEST(PassingParts, AreSharedByActionsWithoutGaps) {
  for (const int count : {0, 1, 5, 12, 100'000}) {
    int next = 0;
    for (int action = 0; action < 70'000; ++action) {
      const Share share = share_of(action, 70'000, count);
      ASSERT_EQ(share.first, next);
      ASSERT_LE(share.end - share.first, count / 70'000 + 1);
      next = share.end;
    }
    EXPECT_EQ(next, count);
  }
}

}  // namespace
}  // namespace trireme::program
