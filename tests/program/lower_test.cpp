// Lowering, action by action: who loads, sends, receives, reads the loss, and where that stands.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace trireme::program {
namespace {

using testing::HasSubstr;

/// The actions of all ranks, without the head.
std::string actions(const Program& program) {
  const std::string text = to_text(program);
  return text.substr(text.find('|') - 3);
}

std::string refusal(const Lowering& lowering) {
  try {
    lower(lowering);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Lower, OneStageAloneHasNoTransfers) {
  const Program program = lower({{keep_all(1, 2)}, schedule::one_f_one_b({1, 2})});

  EXPECT_EQ(actions(program), R"(
0 | 0:load_input 0
0 | 0:load_target 2
0 | 0:forward_tape 1
0 | 0:forward_tape 2
0 | 0:read_loss 2
0 | 0:backward 2
0 | 0:backward 1
0 | 1:load_input 0
0 | 1:load_target 2
0 | 1:forward_tape 1
0 | 1:forward_tape 2
0 | 1:read_loss 2
0 | 1:backward 2
0 | 1:backward 1
0 | 0:reduce_gradients 0
0 | 0:clip 0
0 | 0:step 0
)");
}

TEST(Lower, TwoStagesOneFOneB) {
  const Program program =
      lower({{keep_all(1, 2), recompute_all(3, 4)}, schedule::one_f_one_b({2, 2})});

  EXPECT_EQ(program.layers, 4);
  EXPECT_EQ(program.micro_batches, 2);
  EXPECT_EQ(program.rank_of_layer, (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(actions(program), R"(
0 | 0:load_input 0
0 | 0:forward_tape 1
0 | 0:forward_tape 2
0 | 0:send_output 2
0 | 1:load_input 0
0 | 1:forward_tape 1
0 | 1:forward_tape 2
0 | 1:send_output 2
0 | 0:receive_gradient 2
0 | 0:backward 2
0 | 0:backward 1
0 | 1:receive_gradient 2
0 | 1:backward 2
0 | 1:backward 1
0 | 0:reduce_gradients 0
0 | 0:clip 0
0 | 0:step 0
1 | 0:load_target 4
1 | 0:receive_input 2
1 | 0:forward_keep 3
1 | 0:forward_keep 4
1 | 0:read_loss 4
1 | 0:forward_tape 4
1 | 0:backward 4
1 | 0:forward_tape 3
1 | 0:backward 3
1 | 0:send_gradient 2
1 | 1:load_target 4
1 | 1:receive_input 2
1 | 1:forward_keep 3
1 | 1:forward_keep 4
1 | 1:read_loss 4
1 | 1:forward_tape 4
1 | 1:backward 4
1 | 1:forward_tape 3
1 | 1:backward 3
1 | 1:send_gradient 2
1 | 0:reduce_gradients 0
1 | 0:clip 0
1 | 0:step 0
)");
}

TEST(Lower, TwoStagesGPipe) {
  Lowering lowering{{keep_all(1, 1), keep_all(2, 2)}, schedule::gpipe({2, 2})};
  lowering.end = StepEnd::kNone;

  EXPECT_EQ(actions(lower(lowering)), R"(
0 | 0:load_input 0
0 | 0:forward_tape 1
0 | 0:send_output 1
0 | 1:load_input 0
0 | 1:forward_tape 1
0 | 1:send_output 1
0 | 0:receive_gradient 1
0 | 0:backward 1
0 | 1:receive_gradient 1
0 | 1:backward 1
1 | 0:load_target 2
1 | 0:receive_input 1
1 | 0:forward_tape 2
1 | 0:read_loss 2
1 | 1:load_target 2
1 | 1:receive_input 1
1 | 1:forward_tape 2
1 | 1:read_loss 2
1 | 0:backward 2
1 | 0:send_gradient 1
1 | 1:backward 2
1 | 1:send_gradient 1
)");
}

TEST(Lower, EvaluationHasNoBackwardAndNoEnd) {
  Lowering lowering{{evaluate(1, 1), evaluate(2, 3)},
                    schedule::forwards_only(schedule::one_each(2), 1)};
  lowering.end = StepEnd::kNone;

  EXPECT_EQ(actions(lower(lowering)), R"(
0 | 0:load_input 0
0 | 0:forward 1
0 | 0:send_output 1
1 | 0:load_target 3
1 | 0:receive_input 1
1 | 0:forward 2
1 | 0:forward 3
1 | 0:read_loss 3
)");
}

TEST(Lower, RecomputationDoesNotWaitForTheGradient) {
  const Program program =
      lower({{recompute_all(1, 1), keep_all(2, 2)}, schedule::one_f_one_b({2, 1})});

  EXPECT_THAT(actions(program), HasSubstr("0 | 0:forward_tape 1\n"
                                          "0 | 0:receive_gradient 1\n"
                                          "0 | 0:backward 1\n"));
}

TEST(Lower, OutputLeavesBeforeWhatFollowsIt) {
  StageProgram first = keep_all(1, 1);
  first.forward.push_back({Op::kOffloadTape, 1});
  first.backward.insert(first.backward.begin(), {Op::kPrefetchTape, 1});

  const Program program = lower({{first, keep_all(2, 2)}, schedule::one_f_one_b({2, 1})});

  EXPECT_THAT(actions(program), HasSubstr("0 | 0:forward_tape 1\n"
                                          "0 | 0:send_output 1\n"
                                          "0 | 0:offload_tape 1\n"
                                          "0 | 0:prefetch_tape 1\n"
                                          "0 | 0:receive_gradient 1\n"
                                          "0 | 0:backward 1\n"));
}

TEST(Lower, NeighboursOnOneRankKeepTheirValues) {
  Lowering lowering{{keep_all(1, 1), recompute_all(2, 2)},
                    schedule::on_ranks(schedule::one_f_one_b({2, 1}), {0, 0}),
                    {0, 0}};
  lowering.end = StepEnd::kNone;

  const Program program = lower(lowering);

  EXPECT_EQ(program.rank_of_layer, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(actions(program), R"(
0 | 0:load_input 0
0 | 0:forward_tape 1
0 | 0:load_target 2
0 | 0:forward_keep 2
0 | 0:read_loss 2
0 | 0:forward_tape 2
0 | 0:backward 2
0 | 0:backward 1
)");
}

TEST(Lower, RankWithSeveralStagesTakesThemInAnOrderThatRuns) {
  // Stages 0 and 2 on rank 0, stage 1 on rank 1.
  Lowering lowering{{keep_all(1, 1), keep_all(2, 2), keep_all(3, 3)},
                    schedule::on_ranks(schedule::one_f_one_b({3, 3}), {0, 1, 0}),
                    {0, 1, 0}};

  const Program program = lower(lowering);

  // By hand. Stages keep their own 1F1B orders (0: F0 F1 F2 B0 B1 B2, 1: F0 F1 B0 F2 B1 B2, 2: F0
  // B0 F1 B1 F2 B2); in every slot rank 0 takes a backward that may run first, then the earlier
  // micro-batch.
  EXPECT_EQ("\n" + grid(program), R"(
0 | 0F0 0F1 2F0 2B0 2F1 2B1 0F2 0B0 2F2 0B1 2B2 ..  0B2
1 | ..  F0  F1  ..  B0  ..  ..  F2  B1  ..  ..  B2  ..
)");
}

TEST(Lower, RankWithSeveralStagesRunsThemInItsOrder) {
  Lowering lowering{{keep_all(1, 1), keep_all(2, 2), keep_all(3, 3)},
                    {schedule::parse_passes("F0*2 F2 B2 F2 B2 B0*2", 99),
                     schedule::parse_passes("F1*2 B1*2", 99)},
                    {0, 1, 0}};
  lowering.end = StepEnd::kNone;

  const Program program = lower(lowering);

  EXPECT_EQ(actions(program), R"(
0 | 0:load_input 0
0 | 0:forward_tape 1
0 | 0:send_output 1
0 | 1:load_input 0
0 | 1:forward_tape 1
0 | 1:send_output 1
0 | 0:load_target 3
0 | 0:receive_input 2
0 | 0:forward_tape 3
0 | 0:read_loss 3
0 | 0:backward 3
0 | 0:send_gradient 2
0 | 1:load_target 3
0 | 1:receive_input 2
0 | 1:forward_tape 3
0 | 1:read_loss 3
0 | 1:backward 3
0 | 1:send_gradient 2
0 | 0:receive_gradient 1
0 | 0:backward 1
0 | 1:receive_gradient 1
0 | 1:backward 1
1 | 0:receive_input 1
1 | 0:forward_tape 2
1 | 0:send_output 2
1 | 1:receive_input 1
1 | 1:forward_tape 2
1 | 1:send_output 2
1 | 0:receive_gradient 2
1 | 0:backward 2
1 | 0:send_gradient 1
1 | 1:receive_gradient 2
1 | 1:backward 2
1 | 1:send_gradient 1
)");
}

// Stages 0 and 2 on rank 0 take 1 each way, stage 1 on rank 1 takes 3, messages take 1. By hand:
//
//     time    0   1   2   3   4   5   6   7   8   9   10  11  12  13  14  15  16
//     rank 0  0F0 0F1 ..  ..  ..  ..  2F0 2B0 ..  2F1 2B1 ..  ..  0B0 ..  ..  0B1
//     rank 1  ..  ..  1F0 --- --- 1F1 --- --- ..  1B0 --- --- 1B1 --- ---
TEST(PlacedOrder, BeginsWhatMayBeginBackwardsFirst) {
  const schedule::ChunkTimes times{.forward = {1, 3, 1}, .backward = {1, 3, 1}, .message = {1, 1}};

  const schedule::PlacedOrder placed =
      schedule::placed_order(schedule::one_f_one_b({3, 2}), {0, 1, 0}, &times);

  EXPECT_EQ(schedule::to_text(placed.order[0]), "F0*2 (F2 B2)*2 B0*2");
  EXPECT_EQ(schedule::to_text(placed.order[1]), "F1*2 B1*2");
  EXPECT_EQ(placed.end, 17);
}

TEST(PlacedOrder, OfEqualTimesIsThatOfEqualSlots) {
  for (const std::vector<int>& ranks :
       {std::vector{0, 1, 0}, {0, 1, 0, 1}, {1, 0, 2, 0}, {0, 1, 2, 0, 1}}) {
    const schedule::Order by_stage = schedule::one_f_one_b({static_cast<int>(ranks.size()), 5});
    const std::vector<double> ones(ranks.size(), 1);
    const schedule::ChunkTimes times{
        .forward = ones, .backward = ones, .message = std::vector<double>(ranks.size())};

    EXPECT_EQ(schedule::placed_order(by_stage, ranks, &times).order,
              schedule::on_ranks(by_stage, ranks));
  }
}

TEST(Lower, RanksThatShareSeveralCutsReceiveInTheOrderOfSending) {
  Lowering lowering;
  for (int layer = 1; layer <= 4; ++layer) lowering.stages.push_back(keep_all(layer, layer));
  lowering.order = schedule::on_ranks(schedule::one_f_one_b({4, 5}), {0, 1, 0, 1});
  lowering.placement = {0, 1, 0, 1};  // outputs of layers 1 and 3 go from 0 to 1

  const Program program = lower(lowering);

  const auto messages = [&](std::size_t rank, Op op) {
    std::vector<std::pair<int, int>> found;
    for (const Action& action : program.ranks[rank]) {
      if (action.op == op) found.emplace_back(action.layer, action.micro_batch);
    }
    return found;
  };
  EXPECT_EQ(messages(0, Op::kSendOutput), messages(1, Op::kReceiveInput));
  EXPECT_EQ(messages(1, Op::kSendOutput), messages(0, Op::kReceiveInput));
  EXPECT_EQ(messages(0, Op::kSendGradient), messages(1, Op::kReceiveGradient));
  EXPECT_EQ(messages(1, Op::kSendGradient), messages(0, Op::kReceiveGradient));
  EXPECT_EQ(messages(0, Op::kSendOutput).size(), 10U);
}

TEST(Lower, RankWithoutAStageStillEndsTheStep) {
  const Program program =
      lower({{keep_all(1, 1)}, schedule::on_ranks(schedule::one_f_one_b({1, 1}), {1}), {1}});

  EXPECT_THAT(actions(program),
              HasSubstr("0 | 0:reduce_gradients 0\n0 | 0:clip 0\n0 | 0:step 0\n"));
  EXPECT_EQ(program.rank_of_layer, (std::vector<int>{1, 1}));
}

TEST(Lower, RefusesStagesThatDoNotFitTogether) {
  EXPECT_THAT(refusal({}), HasSubstr("a pipeline without stages"));
  EXPECT_THAT(refusal({{keep_all(1, 2), keep_all(4, 5)}, schedule::one_f_one_b({2, 1})}),
              HasSubstr("stage 1 begins with layer 4, must be 3"));
  EXPECT_THAT(refusal({{keep_all(1, 2)}, schedule::one_f_one_b({2, 1})}),
              HasSubstr("an order of passes for 2 ranks, must be for 1"));
  EXPECT_THAT(refusal({{keep_all(1, 2)}, schedule::one_f_one_b({1, 1}), {0, 1}}),
              HasSubstr("ranks for 2 stages, must be for 1"));
  EXPECT_THAT(refusal({{keep_all(1, 2)}, schedule::one_f_one_b({1, 1}), {-1}}),
              HasSubstr("on rank -1"));
  EXPECT_THAT(refusal({{StageProgram{1, 0, {}, {}}}, schedule::one_f_one_b({1, 1})}),
              HasSubstr("must have at least one"));
}

TEST(Lower, RefusesPartsThatDoNotDoTheirPass) {
  EXPECT_THAT(refusal({{evaluate(1, 2)}, schedule::one_f_one_b({1, 1})}),
              HasSubstr("stage 0: its backward part never runs backward 2"));
  StageProgram unfinished = keep_all(1, 2);
  unfinished.forward.pop_back();
  EXPECT_THAT(refusal({{unfinished}, schedule::one_f_one_b({1, 1})}),
              HasSubstr("stage 0: its forward part never runs its last layer, 2"));
}

TEST(Lower, RefusesOrdersThatSkip) {
  const schedule::Pass f0{schedule::Pass::Kind::kForward, 0};
  const schedule::Pass f1{schedule::Pass::Kind::kForward, 1};
  const schedule::Pass b0{schedule::Pass::Kind::kBackward, 0};
  EXPECT_THAT(refusal({{keep_all(1, 1)}, {{b0, f0}}}), HasSubstr("comes before its forward"));
  EXPECT_THAT(refusal({{keep_all(1, 1), keep_all(2, 2)}, {{f0}, {f1, f1}}}),
              HasSubstr("chunk 1 runs 2 micro-batches, chunk 0 runs 1"));
  EXPECT_THAT(refusal({{keep_all(1, 1)}, {{}}}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal({{keep_all(1, 1)}, {{f0, f0, b0}}}),
              HasSubstr("2 forwards, but 1 backwards"));
}

}  // namespace
}  // namespace trireme::program
