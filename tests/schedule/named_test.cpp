// Named schedules against typed-in orders, and against steps and peaks that papers give.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/named.h"

#include "schedule/evaluate.h"
#include "support/input_error.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::schedule {
namespace {

using Kind = Pass::Kind;
using Texts = std::vector<std::string>;

const NamedSchedule& by_name(std::string_view name) {
  const NamedSchedule* const schedule = find_schedule(name);
  if (schedule == nullptr) throw InputError("no such schedule");
  return *schedule;
}

Order named(std::string_view name, Shape shape, const std::vector<bool>& split = {}) {
  return order_of(by_name(name), shape.ranks, shape.per_rank, shape.micro_batches, split);
}

Placement placement(std::string_view name, Shape shape) {
  return placement_of(by_name(name), shape.ranks, shape.per_rank);
}

/// Pass after pass, so that lists are easy to compare with papers: equal ones in a row are counted,
/// groups are not.
Texts texts(const Order& order) {
  Texts texts;
  for (const std::vector<Pass>& passes : order) {
    std::vector<std::string> runs;
    for (std::size_t i = 0; i < passes.size();) {
      std::size_t end = i;
      while (end < passes.size() && passes[end] == passes[i]) ++end;
      runs.push_back(to_text({passes.begin() + static_cast<std::ptrdiff_t>(i),
                              passes.begin() + static_cast<std::ptrdiff_t>(end)}));
      i = end;
    }
    texts.push_back(join(runs, " "));
  }
  return texts;
}

std::string refusal(std::string_view name, Shape shape) {
  return support::input_error([&] { named(name, shape); });
}

/// Largest number of chunks' activations that a rank holds, until their W has ended.
int peak_of(const std::vector<Pass>& passes) {
  int held = 0, most = 0;
  for (const Pass pass : passes) {
    if (pass.kind == Kind::kForward) most = std::max(most, ++held);
    if (gives_weights(pass.kind)) --held;
  }
  return most;
}

/// Step and peak where a rank's share of a micro-batch has F, I and W of 1 each and activations of
/// 1, however many chunks share it.
std::pair<double, double> step_and_peak(std::string_view name, Shape shape) {
  const Order order = named(name, shape);
  const double chunks = static_cast<double>(placement(name, shape).size()) / shape.ranks;
  int peak = 0;
  for (const std::vector<Pass>& passes : order) peak = std::max(peak, peak_of(passes));
  return {Evaluation(order, placement(name, shape)).end().value_or(-1) / chunks, peak / chunks};
}

void expect_sound(const Order& order, const Placement& placement, int micro_batches,
                  const std::string& what) {
  EXPECT_NO_THROW(require_sound(order, placement)) << what;
  EXPECT_EQ(micro_batches_of(order, placement), micro_batches) << what;
  EXPECT_TRUE(Evaluation(order, placement).end()) << what << ": ranks wait in a circle";
}

TEST(NamedSchedules, AreFoundByName) {
  EXPECT_EQ(schedule_names(), (Texts{"1f1b", "gpipe", "zb-h1", "interleaved", "looped-bfs", "zb-v",
                                     "v-half", "v-min", "dualpipe-v"}));
  for (const NamedSchedule& schedule : named_schedules()) {
    EXPECT_EQ(find_schedule(schedule.name), &schedule);
    EXPECT_NE(schedule.source, "");
  }
  EXPECT_EQ(find_schedule("1F1B"), nullptr);
}

TEST(NamedSchedules, PlaceTheirChunks) {
  EXPECT_EQ(placement("zb-h1", {3, 7, 1}), one_each(3));
  EXPECT_EQ(placement("interleaved", {3, 4, 1}), round_robin(3, 4));
  EXPECT_EQ(placement("looped-bfs", {3, 2, 1}), round_robin(3, 2));
  EXPECT_EQ(placement("v-min", {3, 7, 1}), v_shaped(3, 2));
}

// The pictures of the papers, with micro-batches implied.
TEST(NamedSchedules, OneFOneBAndZbH1AreTheirPictures) {
  EXPECT_EQ(texts(named("1f1b", {3, 1, 4})),
            (Texts{"F0*3 B0 F0 B0*3", "F1*2 B1 F1 B1 F1 B1*2", "F2 B2 F2 B2 F2 B2 F2 B2"}));
  EXPECT_EQ(texts(named("zb-h1", {3, 1, 4})),
            (Texts{"F0*3 I0 W0 F0 I0 W0 I0 W0 I0 W0", "F1*2 I1 F1 I1 W1 F1 I1 W1 I1 W1*2",
                   "F2 I2 F2 I2 F2 I2 W2 F2 I2 W2*3"}));
  EXPECT_EQ(texts(named("gpipe", {2, 1, 3})), (Texts{"F0*3 B0*3", "F1*3 B1*3"}));
}

// By Megatron-LM's numbering of virtual micro-batches instead of lists of turns: forward k of a
// rank is of its chunk (k mod 8) div 4, backward k of the other; the warm-up has 2 (3 - rank) + 4.
TEST(NamedSchedules, InterleavedIsMegatrons) {
  EXPECT_EQ(texts(named("interleaved", {4, 2, 8})),
            (Texts{"F0*4 F4*4 F0*3 B4 F0 B4 F4 B4 F4 B4 F4 B0 F4 B0*3 B4*4 B0*4",
                   "F1*4 F5*4 F1 B5 F1 B5 F1 B5 F1 B5 F5 B1 F5 B1 F5 B1 F5 B1 B5*4 B1*4",
                   "F2*4 F6*3 B6 F6 B6 F2 B6 F2 B6 F2 B2 F2 B2 F6 B2 F6 B2 F6 B6 F6 B6*3 B2*4",
                   "F3*4 F7 B7 F7 B7 F7 B7 F7 B7 F3 B3 F3 B3 F3 B3 F3 B3 F7 B7 F7 B7 F7 B7 F7 B7 "
                   "B3*4"}));
}

TEST(NamedSchedules, LoopedBfsRunsChunkAfterChunk) {
  EXPECT_EQ(texts(named("looped-bfs", {2, 3, 5})),
            (Texts{"F0*5 F2*5 F4*5 B4*5 B2*5 B0*5", "F1*5 F3*5 F5*5 B5*5 B3*5 B1*5"}));
}

// Written by a second program, from the rule as a loop over counts of forwards (add F's of chunk 0
// while there are any, W's that are left at the end). Its step is the least for this placement, 1.5
// for the way to rank 3 and 24 of work, with 1F1B's memory: see ReachTheStepsAndPeaksOfThePapers.
TEST(NamedSchedules, ZbVIsItsRule) {
  EXPECT_EQ(
      texts(named("zb-v", {4, 2, 8})),
      (Texts{"F0*7 F7 I7 W7 F7 I7 W7 F7 I7 W7 F7 I7 W7 F0 I0 W0 F7 I7 W7 I0 W0 F7 I7 W7 I0 W0 F7 "
             "I7 W7 I0 W0 F7 I7 W7 I0 W0 I0 W0 I0 W0 I0 W0",
             "F1*5 F6 F1 F6 I6 W6 F6 I6 W6 F6 I6 W6 F1 I1 W1 F6 I6 W6 F1 I1 W1 F6 I6 W6 I1 W1 F6 "
             "I6 W6 I1 W1 F6 I6 W6 I6 I1*2 W1 I1 W1 I1 W1 W6 W1",
             "F2*3 F5 F2 F5 F2 F5 I5 W5 F5 I5 W5 F2 I2 W2 F5 I5 W5 F2 I2 W2 F5 I5 W5 F2 I2 W2 F5 "
             "I5 W5 I2 W2 F5 I5 W5 I5 I2 I5 I2*2 W2 I2 W2 W5*2 W2*2",
             "F3 F4 F3 F4 F3 F4 F3 F4 I4 W4 F3 I3 W3 F4 I4 W4 F3 I3 W3 F4 I4 W4 F3 I3 W3 F4 I4 W4 "
             "F3 I3 W3 F4 I4 W4 I4 I3 I4 I3 I4 I3*2 W3 W4*3 W3*3"}));
}

// V-Half and V-Min by a second program that follows the authors' procedure (repeat, put W's,
// reorder with and without them, squeeze) on lists of times by kind, with the memory counted anew
// for each move.
TEST(NamedSchedules, VHalfIsItsBlocks) {
  EXPECT_EQ(
      texts(named("v-half", {4, 2, 8})),
      (Texts{"F0*5 F7 I7 W7 F7 I7 W7 F7 I0 I7 W7 F7 W0 F0 I0 I7 W7 F7 W0 F0 I0 I7 W7 F7 W0 F0 I0 "
             "I7 W7 F7 I7 W7 I0 W0*2 F7 I7 I0 W7 I0 W0*2 I0 W0",
             "F1*4 F6*2 I6 W6 F6 I6 W6 I1 W1 F1 F6 I6 W6 I1 W1 F1 F6 I6 W6 I1 W1 F1 F6 I6 W6 I1 F1 "
             "W1 F6 I6 W6 I1 I6 W6 F6 W1 I1 I6 I1 W6 W1*2 I1 W1",
             "F2*3 F5*3 I5 W5 F2 I5 I2 W5 W2 F5 F2 I2 I5 W5 F5 W2 F2 I2 I5 W5 F5 W2 F2 I2 I5 W5 F5 "
             "W2 F2 I2 I5 W5 F5 I5 I2 W5 I2 I5 W5 W2 I2 W2*3",
             "F3 F4 F3 F4 F3 F4 I4 W4 I3 W3 F3 F4 I4 W4 I3 W3 F3 F4 I4 W4 I3 W3 F3 F4 I4 W4 I3 F3 "
             "W3 F4 I4 I3 W4 F3 W3 F4 I4 I3 I4 I3 W4*2 I4 I3 W4 W3*3"}));
}

TEST(NamedSchedules, VMinIsItsBlocks) {
  EXPECT_EQ(
      texts(named("v-min", {4, 2, 8})),
      (Texts{"F0*3 F7 I7 W7 F7 I7 W7 I0 W0 F0 F7 I7 I0 W7 W0 F0 F7 I7 I0 W7 W0 F0 F7 I7 I0 W7 W0 "
             "F0 F7 I7 I0 W7 W0 F0 F7 I7 I0 W7 W0 F7 I7 I0 W7 W0 I0 W0",
             "F1*2 F6*2 I6 W6 F1 I1 I6 W6 W1 F6 F1 I1 I6 W6 W1 F6 F1 I1 I6 W6 W1 F6 F1 I1 I6 W6 W1 "
             "F6 F1 I1 I6 W6 W1 F6 F1 I1 I6 W6 W1 F6 I1 I6 W6 W1 I1 W1",
             "F2*2 F5*2 I5 W5 F2 I2 W2 I5 F5 W5 I2 F2 W2 I5 F5 W5 I2 F2 W2 I5 F5 W5 I2 F2 W2 I5 F5 "
             "W5 I2 F2 W2 I5 F5 W5 I2 F2 W2 I5 F5 W5 I2 W2 I5 W5 I2 W2",
             "F3 F4 F3 F4 I4 I3 W4 W3 F3 F4 I4 I3 W4 W3 F3 F4 I4 I3 W4 W3 F3 F4 I4 I3 W4 W3 F3 F4 "
             "I4 I3 W4 W3 F3 F4 I4 I3 W4 W3 F3 F4 I4 I3 W4 W3 I4 I3 W4 W3"}));
}

// By a second program with a switch for whole or split backwards that is thrown half way through
// the pairs, and a queue of W's, as DeepSeek-AI's program has them.
TEST(NamedSchedules, DualPipeVIsItsRule) {
  EXPECT_EQ(texts(named("dualpipe-v", {4, 2, 8})),
            (Texts{"F0*7 F7 I7 W7 F7 I7 W7 F7 I7 W7 F7 F0 B7 F7 B0 B7 F7 B0 B7 F7 B0 B7 F7 B0 B7 "
                   "I0 W0 I0 W0 I0 W0 I0 W0",
                   "F1*5 F6 F1 F6 I6 W6 F6 I6 W6 F6 F1 B6 F6 B1 F1 B6 F6 B1 B6 F6 B1 B6 F6 B1 B6 "
                   "B1 I6 I1 W6 I1 W1 I1 W1*2",
                   "F2*3 F5 F2 F5 F2 F5 I5 W5 F5 F2 B5 F5 B2 F2 B5 F5 B2 F2 B5 F5 B2 B5 F5 B2 B5 "
                   "B2 B5 I2 I5 I2 W2 I2 W5 W2*2",
                   "F3 F4 F3 F4 F3 F4 F3 F4 F3 B4 F4 B3 F3 B4 F4 B3 F3 B4 F4 B3 F3 B4 F4 B3 B4 B3 "
                   "B4 B3 I4 I3 I4 I3 W4 W3 W4 W3"}));
}

// Closed forms where there are any. Bubbles of F + I + W per rank before the last for 1F1B and
// GPipe, a share of them for chunks in turn, F + I - W for ZB-H1; ZB-V and DualPipeV wait but for
// the way to the last rank, (p - 1) / 2. V-Half's and V-Min's are those of the second program
// above.
TEST(NamedSchedules, ReachTheStepsAndPeaksOfThePapers) {
  using Numbers = std::pair<double, double>;
  EXPECT_EQ(step_and_peak("1f1b", {8, 1, 24}), Numbers(93, 8));
  EXPECT_EQ(step_and_peak("gpipe", {8, 1, 24}), Numbers(93, 24));
  EXPECT_EQ(step_and_peak("zb-h1", {8, 1, 24}), Numbers(79, 8));
  EXPECT_EQ(step_and_peak("interleaved", {8, 2, 24}), Numbers(82.5, 11.5));
  EXPECT_EQ(step_and_peak("interleaved", {8, 4, 24}), Numbers(77.25, 9.75));
  EXPECT_EQ(step_and_peak("looped-bfs", {8, 2, 24}), Numbers(82.5, 24));
  EXPECT_EQ(step_and_peak("zb-v", {8, 2, 24}), Numbers(75.5, 8));
  EXPECT_EQ(step_and_peak("v-half", {8, 2, 24}), Numbers(80.5, 5));
  EXPECT_EQ(step_and_peak("v-min", {8, 2, 24}), Numbers(85.5, 4));
  EXPECT_EQ(step_and_peak("dualpipe-v", {8, 2, 24}), Numbers(75.5, 8.5));

  EXPECT_EQ(step_and_peak("zb-v", {4, 2, 8}), Numbers(25.5, 4));
  EXPECT_EQ(step_and_peak("zb-v", {4, 2, 24}), Numbers(73.5, 4));
  EXPECT_EQ(step_and_peak("v-min", {4, 2, 8}), Numbers(29.5, 2));
  EXPECT_EQ(step_and_peak("v-min", {4, 2, 24}), Numbers(77.5, 2));
}

TEST(NamedSchedules, HaveThePeaksOfTheirPapersOnAnyNumberOfRanks) {
  for (int p = 1; p <= 12; ++p) {
    const int m = 4 * p;
    EXPECT_EQ(step_and_peak("v-half", {p, 2, m}).second, (p + 2) / 2) << p;
    EXPECT_EQ(step_and_peak("v-min", {p, 2, m}).second, (p + 4) / 3) << p;
    EXPECT_EQ(step_and_peak("zb-v", {p, 2, m}), std::pair(3 * m + (p - 1) / 2.0, double(p))) << p;
    EXPECT_EQ(step_and_peak("dualpipe-v", {p, 2, m}).second, p + 0.5) << p;
    for (int v = 2; v <= 4; ++v) {
      const auto [step, peak] = step_and_peak("interleaved", {p, v, m});
      EXPECT_EQ(step * v, 3 * m * v + 3 * (p - 1)) << p;
      EXPECT_EQ(peak * v, 2 * (p - 1) + (v - 1) * p + 1) << p;
    }
  }
}

TEST(NamedSchedules, AreSoundForAllShapes) {
  for (const NamedSchedule& schedule : named_schedules())
    for (const Shape shape : shapes_of(schedule, 8, 20))
      expect_sound(named(schedule.name, shape), placement(schedule.name, shape),
                   shape.micro_batches, concat(schedule.name, ": ", to_text(shape)));
}

/// Whether whole and split backwards are where they should be.
bool has_whole_backwards(const Order& order, const std::vector<bool>& split) {
  for (const std::vector<Pass>& passes : order)
    for (const Pass pass : passes)
      if (pass.kind != Kind::kForward && pass.kind != Kind::kBackward &&
          !split[static_cast<std::size_t>(pass.chunk)])
        return false;
  return true;
}

TEST(NamedSchedules, RunWholeBackwardsWhereAChunkIsNotSplit) {
  for (const NamedSchedule& schedule : named_schedules()) {
    for (const Shape shape : shapes_of(schedule, 5, 11)) {
      const Placement chunks = placement(schedule.name, shape);
      const std::string what = concat(schedule.name, ": ", to_text(shape));
      for (std::size_t whole = 0; whole <= chunks.size(); ++whole) {  // each, then all
        std::vector<bool> split(chunks.size(), whole < chunks.size());
        if (whole < chunks.size()) split[whole] = false;
        const Order order = named(schedule.name, shape, split);
        expect_sound(order, chunks, shape.micro_batches, what);
        EXPECT_TRUE(has_whole_backwards(order, split)) << what;
      }
    }
  }
}

TEST(NamedSchedules, RunWholeBackwardsAtThePlaceOfSplitOnes) {
  for (int p = 1; p <= 5; ++p)
    EXPECT_EQ(named("zb-h1", {p, 1, 7}, std::vector<bool>(static_cast<std::size_t>(p))),
              named("1f1b", {p, 1, 7}));
  EXPECT_EQ(texts(named("zb-v", {1, 2, 2})), (Texts{"F0 F1 I1 W1 F0 I0 W0 F1 I1 W1 I0 W0"}));
  EXPECT_EQ(texts(named("zb-v", {1, 2, 2}, {true, false})),
            (Texts{"F0 F1 B1 F0 I0 W0 F1 B1 I0 W0"}));
}

TEST(NamedSchedules, SplitBackwardsAsTheTableSays) {
  for (const NamedSchedule& schedule : named_schedules()) {
    bool splits = false;
    for (const std::vector<Pass>& passes : named(schedule.name, {2, 2, 6}))
      splits |= std::any_of(passes.begin(), passes.end(),
                            [](Pass pass) { return pass.kind == Kind::kBackwardInput; });
    EXPECT_EQ(splits, schedule.splits) << schedule.name;
  }
}

TEST(NamedSchedules, SayWhichNumbersTheyNeed) {
  EXPECT_EQ(refusal("dualpipe-v", {4, 2, 7}),
            "schedule: dualpipe-v on 4 ranks needs at least 8 micro-batches, found 7; take more, "
            "or zb-v, "
            "which runs any number");
  EXPECT_EQ(refusal("interleaved", {4, 1, 8}),
            "interleaved with 1 chunks on a rank, must be at least 2; with one, take 1f1b");
  EXPECT_EQ(refusal("looped-bfs", {4, 0, 8}),
            "looped-bfs with 0 chunks on a rank, must be at least 2; with one, take 1f1b");
  EXPECT_EQ(refusal("1f1b", {0, 1, 4}),
            "a pipeline of 0 stages and 4 micro-batches; both must be at least 1");
  EXPECT_EQ(refusal("v-min", {4, 2, 0}),
            "a pipeline of 4 ranks and 0 micro-batches; both must be at least 1");
}

// Five on two ranks are a group of three and one of two; eleven on four would be six and five, so
// they are three groups of four with a place left. One group has any size.
TEST(Interleaved, TakesAnyNumberOfMicroBatchesInGroups) {
  EXPECT_EQ(texts(named("interleaved", {2, 2, 5})),
            (Texts{"F0*3 F2*3 B2 F0 B2 F0 B2 F2 B0 F2 B0*2 B2*2 B0*2",
                   "F1*3 F3 B3 F3 B3 F3 B3 F1 B1 F1 B1 F3 B1 F3 B3*2 B1*2"}));
  EXPECT_EQ(texts(named("interleaved", {4, 2, 11}))[3],
            "F3*4 F7 B7 F7 B7 F7 B7 F7 B7 F3 B3 F3 B3 F3 B3 F3 B3 F7 B7 F7 B7 F7 B7 F7 B7 F3 B3 F3 "
            "B3 F3 B3*2 F7 B7 F7 B7 F7 B7 B3*3");
  EXPECT_EQ(texts(named("interleaved", {4, 2, 1}))[3], "F3 F7 B7 B3");
  EXPECT_EQ(texts(named("interleaved", {4, 2, 7}))[3],
            "F3*7 F7 B7 F7 B7 F7 B7 F7 B7 F7 B7 F7 B7 F7 B7 B3*7");
}

// The bound is the way to the last rank and the work, each pass of a chunk 1/v of a rank's.
TEST(Interleaved, WaitsNoMoreWhereOneMicroBatchMoreIsInAGroup) {
  for (int p = 2; p <= 8; ++p) {
    for (const int m : {p + 1, 2 * p + 1, 2 * p + 2, 3 * p + 1, 3 * p + 3}) {
      const int largest = m % p == 0 ? p : p + 1;
      const auto [step, peak] = step_and_peak("interleaved", {p, 2, m});
      EXPECT_EQ(step * 2, 6 * m + 3 * (p - 1)) << p << ", " << m;
      EXPECT_EQ(peak * 2, std::min(2 * m, 2 * (p - 1) + largest + 1)) << p << ", " << m;
    }
  }
}

TEST(OneFOneB, StageKeepsAtMostItsDistanceFromTheEnd) {
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 12; ++m) {
      const std::vector<int> most = in_flight(named("1f1b", {p, 1, m}), one_each(p));
      for (int k = 0; k < p; ++k) {
        EXPECT_EQ(most[static_cast<std::size_t>(k)], std::min(p - k, m));
        EXPECT_EQ(usual_in_flight("1f1b", {p, m}, k), std::min(p - k, m));
      }
    }
  }
}

TEST(OneFOneB, DefersWeightsByBackwards) {
  EXPECT_EQ(texts(one_f_one_b_with({3, 2, 1}, 4, {std::nullopt, 0, 9})),
            (Texts{"F0*3 B0 F0 B0*3", "F1*2 I1 W1 F1 I1 W1 F1 I1 W1 I1 W1",
                   "F2 I2 F2 I2 F2 I2 F2 I2 W2*4"}));
  EXPECT_EQ(texts(one_f_one_b_with({2, 2, 1}, 3)),
            (Texts{"F0*2 B0 F0 B0*2", "F1*2 B1 F1 B1*2", "F2 B2 F2 B2 F2 B2"}));
  for (int m = 1; m <= 9; ++m)
    for (int n = 0; n <= m; ++n)
      expect_sound(one_f_one_b_with({4, 4, 2}, m, {n, std::nullopt, m - n}), one_each(3), m,
                   "1f1b");
}

TEST(OneFOneB, RefusesNumbersInFlightThatWouldWait) {
  EXPECT_THROW(one_f_one_b_with({1, 2}, 4), InputError);
  EXPECT_THROW(one_f_one_b_with({1, 0}, 4), InputError);
  EXPECT_THROW(one_f_one_b_with({}, 4), InputError);
  EXPECT_THROW(one_f_one_b_with({1}, 0), InputError);
  EXPECT_THROW(gpipe({2, 0}), InputError);
  EXPECT_THROW(forwards_only({}, 1), InputError);
  EXPECT_THROW(forwards_only({0}, 0), InputError);
}

// Slot by slot on paper: on two ranks with two chunks each, outputs of chunk 1 come back to rank 0
// (round) or stay on rank 1 (V).
TEST(ForwardsOnly, TakesTheEarliestMicroBatchThatMayRun) {
  EXPECT_EQ(texts(forwards_only(one_each(2), 3)), (Texts{"F0*3", "F1*3"}));
  EXPECT_EQ(texts(forwards_only(round_robin(2, 2), 4)),
            (Texts{"F0*2 F2*2 F0*2 F2*2", "F1*2 F3*2 F1*2 F3*2"}));
  EXPECT_EQ(texts(forwards_only(v_shaped(2, 2), 4)),
            (Texts{"F0*3 F3 F0 F3*3", "F1 F2 F1 F2 F1 F2 F1 F2"}));
  EXPECT_EQ(texts(forwards_only({0, 0, 1}, 2)), (Texts{"F0 F1 F0 F1", "F2*2"}));
}

TEST(ForwardsOnly, IsSoundForAllPlacements) {
  for (int p = 1; p <= 6; ++p)
    for (int v = 1; v <= 4; ++v)
      for (int m = 1; m <= 12; ++m)
        for (const Placement& chunks : {round_robin(p, v), v_shaped(p, v)})
          expect_sound(forwards_only(chunks, m), chunks, m, concat(p, " ranks, ", v, " chunks"));
}

}  // namespace
}  // namespace trireme::schedule
