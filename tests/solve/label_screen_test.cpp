// The pre-check of labels by their sketches.
// SPDX-License-Identifier: Apache-2.0
#include "copies/label_screen.h"

#include "copies/copy_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace trireme::solve {
namespace {

std::vector<std::size_t> asked(const LabelScreen& screen, const SketchLimit& limit) {
  std::vector<std::size_t> labels;
  EXPECT_FALSE(screen.any(limit, [&](std::size_t k) {
    labels.push_back(k);
    return false;
  }));
  return labels;
}

Sketch of(double time, double kept, double moved, double out, double in) {
  Sketch sketch{.time = time, .kept = kept, .moved = moved};
  sketch.out[2] = out;
  sketch.in[0] = in;
  return sketch;
}

TEST(LabelScreen, AsksAboutLabelsThatAreWithinTheLimitInEveryNumber) {
  LabelScreen screen;
  screen.add(of(10, 5, 3, 1, 2));
  EXPECT_EQ(asked(screen, {of(10, 5, 3, 1, 2)}), std::vector<std::size_t>{0});
  EXPECT_TRUE(asked(screen, {of(9, 5, 3, 1, 2)}).empty());
  EXPECT_TRUE(asked(screen, {of(10, 4, 3, 1, 2)}).empty());
  EXPECT_TRUE(asked(screen, {of(10, 5, 2, 1, 2)}).empty());
  EXPECT_TRUE(asked(screen, {of(10, 5, 3, 0, 2)}).empty());
  EXPECT_TRUE(asked(screen, {of(10, 5, 3, 1, 1)}).empty());
  // It can wait for both lanes, one after the other, in the time that it is ahead.
  EXPECT_TRUE(asked(screen, {of(11, 5, 3, 0, 1)}).empty());
  EXPECT_FALSE(asked(screen, {of(12, 5, 3, 0, 1)}).empty());
  EXPECT_TRUE(asked(screen, {of(12, 5, 3, 0, 1), 0, 0.5}).empty());
  EXPECT_FALSE(asked(screen, {of(11, 5, 3, 0, 1), 1, 0}).empty());
}

TEST(LabelScreen, NoLaneWithoutCopiesIsTooLate) {
  LabelScreen screen;
  screen.add(of(0, 0, 0, 0, -std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(asked(screen, {of(0, 0, 0, 0, -7)}).empty());
}

TEST(LabelScreen, StopsAtTheFirstOfManyThatIsNoWorse) {
  LabelScreen screen;
  for (int k = 0; k < 100; ++k) screen.add(of(0, k % 2, 0, 0, 0));
  std::vector<std::size_t> asked;
  EXPECT_TRUE(screen.any({of(0, 0, 0, 0, 0)}, [&](std::size_t k) {
    asked.push_back(k);
    return k == 44;
  }));
  ASSERT_EQ(asked.size(), 23U);
  for (std::size_t k = 0; k < asked.size(); ++k) EXPECT_EQ(asked[k], 2 * k);
  screen.clear();
  EXPECT_FALSE(screen.any({of(0, 0, 0, 0, 0)}, [](std::size_t) { return true; }));
}

// Some copies, waits and layers, the clock stopped anywhere.
TensorLane some_lane(std::mt19937& random, TensorLane::Track& track) {
  TensorLane lane;
  for (int k = static_cast<int>(random() % 8); k > 0; --k) {
    if (random() % 3 > 0) lane.leave(track, static_cast<std::int64_t>(random() % 40));
    lane.pass(track, static_cast<double>(random() % 64) / 8);
    if (random() % 3 == 0) lane.wait(track, static_cast<std::int64_t>(random() % 60));
  }
  return lane;
}

TEST(TensorLane, LagsNoLessThanItsLevelsSay) {
  std::mt19937 random(20261125);
  constexpr LevelBytes kBytes{0, 10, 25, 50};
  int lagging = 0, exact = 0;
  for (int i = 0; i < 20'000; ++i) {
    TensorLane::Track track(5);
    const TensorLane a = some_lane(random, track), b = some_lane(random, track);
    for (const Side side : {Side::kOut, Side::kIn}) {
      const Levels of_a = a.levels(track, kBytes, side, Role::kLagging);
      const Levels of_b = b.levels(track, kBytes, side, Role::kOther);
      double least = 0;
      for (std::size_t k = 0; k < of_a.size(); ++k) least = std::max(least, of_a[k] - of_b[k]);
      const double lag = a.lag(track, b, side);
      ASSERT_LE(least, lag) << "pair " << i;
      lagging += lag > 0 ? 1 : 0;
      exact += lag > 0 && least == lag ? 1 : 0;
    }
  }
  // Otherwise levels would rule out too little to be worth their time.
  EXPECT_GT(exact, lagging * 9 / 10);
  EXPECT_GT(lagging, 10'000);
}

}  // namespace
}  // namespace trireme::solve
