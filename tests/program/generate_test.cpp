// Orders of passes as staircases, and the programs of stages that need no solver.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/generate.h"

#include "trireme/core/error.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::program {
namespace {

/// One layer per stage, kept.
std::string drawn(schedule::Order (*order)(schedule::PipelineShape),
                  schedule::PipelineShape shape) {
  Lowering lowering;
  for (int layer = 1; layer <= shape.stages; ++layer)
    lowering.stages.push_back(keep_all(layer, layer));
  lowering.order = order(shape);
  return "\n" + grid(lower(lowering));
}

std::string texts(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions)
    text += (text.empty() ? "" : ", ") + std::string(name(action.op)) + " " +
            std::to_string(action.layer);
  return text;
}

TEST(OneFOneB, LooksLikeItsPicture) {
  EXPECT_EQ(drawn(schedule::one_f_one_b, {4, 8}), R"(
0 | F0 F1 F2 F3 .. .. .. B0 F4 B1 F5 B2 F6 B3 F7 B4 .. B5 .. B6 .. B7
1 | .. F0 F1 F2 .. .. B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 .. B6 .. B7 ..
2 | .. .. F0 F1 .. B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 .. B7 .. ..
3 | .. .. .. F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 .. .. ..
)");
}

TEST(OneFOneB, WithFewMicroBatchesIsAllWarmUp) {
  EXPECT_EQ(drawn(schedule::one_f_one_b, {4, 2}), R"(
0 | F0 F1 .. .. .. .. .. B0 .. B1
1 | .. F0 F1 .. .. .. B0 .. B1 ..
2 | .. .. F0 F1 .. B0 .. B1 .. ..
3 | .. .. .. F0 B0 F1 B1 .. .. ..
)");
}

TEST(OneFOneB, OneStageTakesTurns) {
  EXPECT_EQ(drawn(schedule::one_f_one_b, {1, 3}), R"(
0 | F0 B0 F1 B1 F2 B2
)");
}

TEST(OneFOneB, StageKeepsAtMostItsDistanceFromTheEnd) {
  for (int stages = 1; stages <= 9; ++stages) {
    for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      const std::vector<int> most = schedule::in_flight(
          schedule::one_f_one_b({stages, micro_batches}), schedule::one_each(stages));
      for (int k = 0; k < stages; ++k)
        EXPECT_EQ(most[static_cast<std::size_t>(k)], std::min(stages - k, micro_batches))
            << stages << " stages, " << micro_batches << " micro-batches, stage " << k;
    }
  }
}

TEST(Schedule, HasTheNumbersInFlightThatItUsuallyHas) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      const schedule::PipelineShape shape{stages, micro_batches};
      std::vector<int> usual, all;
      for (int k = 0; k < stages; ++k) {
        usual.push_back(schedule::usual_in_flight("1f1b", shape, k));
        all.push_back(schedule::usual_in_flight("gpipe", shape, k));
      }
      EXPECT_EQ(schedule::one_f_one_b_with(usual, micro_batches), schedule::one_f_one_b(shape));
      EXPECT_EQ(schedule::one_f_one_b_with(all, micro_batches), schedule::gpipe(shape));
    }
  }
}

schedule::Order two_two_one(schedule::PipelineShape shape) {
  return schedule::one_f_one_b_with({2, 2, 1}, shape.micro_batches);
}

TEST(OneFOneB, WithFewerInFlightLooksLikeItsPicture) {
  EXPECT_EQ(drawn(two_two_one, {3, 4}), R"(
0 | F0 F1 .. .. .. B0 F2 .. .. B1 F3 .. .. B2 .. B3
1 | .. F0 F1 .. B0 .. .. F2 B1 .. .. F3 B2 .. B3 ..
2 | .. .. F0 B0 F1 B1 .. .. F2 B2 .. .. F3 B3 .. ..
)");
}

TEST(GPipe, LooksLikeItsPicture) {
  EXPECT_EQ(drawn(schedule::gpipe, {4, 8}), R"(
0 | F0 F1 F2 F3 F4 F5 F6 F7 .. .. .. .. .. .. B0 B1 B2 B3 B4 B5 B6 B7
1 | .. F0 F1 F2 F3 F4 F5 F6 F7 .. .. .. .. B0 B1 B2 B3 B4 B5 B6 B7 ..
2 | .. .. F0 F1 F2 F3 F4 F5 F6 F7 .. .. B0 B1 B2 B3 B4 B5 B6 B7 .. ..
3 | .. .. .. F0 F1 F2 F3 F4 F5 F6 F7 B0 B1 B2 B3 B4 B5 B6 B7 .. .. ..
)");
}

TEST(Orders, NeedStagesAndMicroBatches) {
  EXPECT_THROW(schedule::one_f_one_b({0, 4}), InputError);
  EXPECT_THROW(schedule::gpipe({2, 0}), InputError);
  EXPECT_THROW(schedule::forwards_only({}, 1), InputError);
}

TEST(ForwardsOnly, IsADiagonal) {
  Lowering lowering;
  for (int layer = 1; layer <= 3; ++layer) lowering.stages.push_back(evaluate(layer, layer));
  lowering.order = schedule::forwards_only(schedule::one_each(3), 4);
  lowering.end = StepEnd::kNone;

  const Program program = lower(lowering);

  EXPECT_FALSE(trains(program));
  EXPECT_EQ("\n" + grid(program), R"(
0 | F0 F1 F2 F3 .. ..
1 | .. F0 F1 F2 F3 ..
2 | .. .. F0 F1 F2 F3
)");
}

TEST(KeepAll, RunsNothingTwice) {
  const StageProgram stage = keep_all(2, 4);

  EXPECT_EQ(texts(stage.forward), "forward_tape 2, forward_tape 3, forward_tape 4");
  EXPECT_EQ(texts(stage.backward), "backward 4, backward 3, backward 2");
}

TEST(RecomputeAll, MakesEveryTapeRightBeforeItsBackward) {
  const StageProgram stage = recompute_all(2, 4);

  EXPECT_EQ(texts(stage.forward), "forward_keep 2, forward_keep 3, forward_keep 4");
  EXPECT_EQ(texts(stage.backward),
            "forward_tape 4, backward 4, forward_tape 3, backward 3, forward_tape 2, backward 2");
}

TEST(Evaluate, HasNoBackward) {
  const StageProgram stage = evaluate(1, 2);

  EXPECT_EQ(texts(stage.forward), "forward 1, forward 2");
  EXPECT_TRUE(stage.backward.empty());
}

// Both layers of rank 1 follow one another, yet are of two chunks; layer 4 has no second part.
TEST(Grid, NumbersChunksAndTellsPartsOfBackwardsApart) {
  Lowering lowering;
  for (int layer = 1; layer <= 4; ++layer) lowering.stages.push_back(keep_all(layer, layer));
  lowering.placement = {0, 1, 1, 0};
  lowering.order = {schedule::parse_passes("F0 F3 B3 I0 W0", 99),
                    schedule::parse_passes("F1 F2 I2 I1 W2 W1", 99)};

  EXPECT_EQ("\n" + grid(lower(lowering), {0, 0, 1, 2, 3}), R"(
0 | 0F0 ..  ..  3F0 3B0 ..  ..  0I0 0W0
1 | ..  1F0 2F0 ..  ..  2I0 1I0 2W0 1W0
)");
}

TEST(Grid, RefusesPassesThatWaitInACircle) {
  // Rank 0 wants the backward of micro-batch 0 before it runs its forward.
  Program program{2, 1, {0, 0, 1}, {{{Op::kBackward, 1, 0}, {Op::kForwardTape, 1, 0}}, {}}};
  program.ranks[1] = {{Op::kForwardTape, 2, 0}, {Op::kBackward, 2, 0}};

  EXPECT_THROW(grid(program), InputError);
}

}  // namespace
}  // namespace trireme::program
