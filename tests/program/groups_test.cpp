// Breadth-first micro-batches in groups.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/groups.h"

#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace trireme::program {
namespace {

std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) text += (text.empty() ? "" : ", ") + to_text(action);
  return text;
}

Program lowered(const std::vector<StageProgram>& stages, int groups) {
  return lower({
      .stages = stages,
      .order = schedule::one_f_one_b({static_cast<int>(stages.size()), groups}),
  });
}

TEST(Groups, AreAsManyAsHoldAllMicroBatches) {
  EXPECT_EQ(groups_of(8, 1), 8);
  EXPECT_EQ(groups_of(8, 4), 2);
  EXPECT_EQ(groups_of(9, 4), 3);
  EXPECT_EQ(groups_of(3, 100), 1);
}

TEST(Groups, OfOneMicroBatchAreTheProgram) {
  const Program program = lowered({recompute_all(1, 3), keep_all(4, 5)}, 4);
  EXPECT_EQ(in_groups(program, 1, 4), program);
}

// The last group has what is left.
TEST(Groups, RunALayerForAllBeforeTheNext) {
  const Program program = in_groups(lowered({recompute_all(1, 2)}, 2), 2, 3);
  EXPECT_EQ(program.micro_batches, 3);
  EXPECT_EQ(text_of(program.ranks[0]),
            "0:load_input 0, 0:load_target 2, 0:forward_keep 1, "
            "1:load_input 0, 1:load_target 2, 1:forward_keep 1, "
            "0:forward_keep 2, 0:read_loss 2, 0:forward_tape 2, 0:backward 2, "
            "1:forward_keep 2, 1:read_loss 2, 1:forward_tape 2, 1:backward 2, "
            "0:forward_tape 1, 0:backward 1, 1:forward_tape 1, 1:backward 1, "
            "2:load_input 0, 2:load_target 2, 2:forward_keep 1, "
            "2:forward_keep 2, 2:read_loss 2, 2:forward_tape 2, 2:backward 2, "
            "2:forward_tape 1, 2:backward 1, "
            "0:reduce_gradients 0, 0:clip 0, 0:step 0");
}

// Values of the next layer are copied back only when all of the group are through this one: before
// that there is no room.
TEST(Groups, BringValuesBackWhenAllOfAGroupAreThrough) {
  StageProgram program = recompute_all(1, 2);
  program.forward = {{Op::kForwardKeep, 1}, {Op::kOffload, 0}, {Op::kForwardTape, 2}};
  program.backward = {
      {Op::kBackward, 2}, {Op::kPrefetch, 0}, {Op::kForwardTape, 1}, {Op::kBackward, 1}};
  const std::string text = text_of(in_groups(lowered({program}, 1), 2, 2).ranks[0]);
  EXPECT_NE(text.find("0:forward_keep 1, 0:offload 0, 1:load_input 0"), text.npos) << text;
  EXPECT_NE(text.find("1:backward 2, 0:prefetch 0, 1:prefetch 0, 0:forward_tape 1, 0:backward 1"),
            text.npos)
      << text;
}

// Two ranks that send one another whole groups would each wait for the other to receive.
TEST(Groups, TakeTurnsWhereMessagesGoBothWays) {
  const Program program = in_groups(lowered({keep_all(1, 1), keep_all(2, 2)}, 3), 2, 6);
  const std::string first = text_of(program.ranks[0]), second = text_of(program.ranks[1]);
  EXPECT_NE(first.find("2:forward_tape 1, 2:send_output 1, 0:receive_gradient 1, 0:backward 1, "
                       "3:load_input 0, 3:forward_tape 1, 3:send_output 1"),
            first.npos)
      << first;
  EXPECT_NE(second.find("0:backward 2, 0:send_gradient 1, "), second.npos) << second;
}

/// The micro-batches of every layer's first forwards and of its backwards, in the order in which
/// they run.
std::map<std::pair<int, bool>, std::vector<int>> orders(const std::vector<Action>& actions) {
  std::map<std::pair<int, bool>, std::vector<int>> orders;
  for (const Action& action : actions) {
    if (!is_forward(action.op) && action.op != Op::kBackward) continue;
    std::vector<int>& order = orders[{action.layer, action.op == Op::kBackward}];
    if (std::find(order.begin(), order.end(), action.micro_batch) == order.end())
      order.push_back(action.micro_batch);
  }
  return orders;
}

// Sums of gradients, and statistics, see the micro-batches in their order.
TEST(Groups, LeaveTheOrderOfMicroBatchesOfEveryLayer) {
  for (const int micro_batches : {1, 5, 8, 9}) {
    for (const int group : {1, 2, 3, 8}) {
      const int groups = groups_of(micro_batches, group);
      const Program program =
          in_groups(lowered({recompute_all(1, 3), keep_all(4, 4), recompute_all(5, 6)}, groups),
                    group, micro_batches);
      for (const auto& actions : program.ranks) {
        for (const auto& [of, order] : orders(actions)) {
          EXPECT_EQ(order.size(), static_cast<std::size_t>(micro_batches));
          EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << "layer " << of.first;
        }
      }
    }
  }
}

TEST(Groups, MakeTapesLate) {
  StageProgram program{.first_layer = 1,
                       .last_layer = 3,
                       .forward = {{Op::kForwardTape, 1},
                                   {Op::kForward, 2},
                                   {Op::kOffloadTape, 1},
                                   {Op::kForwardTape, 3}},
                       .backward = {{Op::kPrefetchTape, 1},
                                    {Op::kBackward, 3},
                                    {Op::kForwardTape, 2},
                                    {Op::kBackward, 2},
                                    {Op::kBackward, 1}}};
  const StageProgram late = with_late_tapes(program);
  EXPECT_EQ(text_of(late.forward),
            "0:forward_keep 1, 0:forward_keep 2, 0:offload 1, 0:forward_tape 3");
  EXPECT_EQ(text_of(late.backward),
            "0:prefetch 1, 0:backward 3, 0:forward_tape 2, 0:backward 2, 0:forward_tape 1, "
            "0:backward 1");
  EXPECT_EQ(with_late_tapes(late), late);
}

TEST(Groups, OfAllTapesMakeThemLateButTheLast) {
  const StageProgram late = with_late_tapes(keep_all(1, 3));
  EXPECT_EQ(text_of(late.forward), "0:forward_keep 1, 0:forward_keep 2, 0:forward_tape 3");
  EXPECT_EQ(text_of(late.backward),
            "0:backward 3, 0:forward_tape 2, 0:backward 2, 0:forward_tape 1, 0:backward 1");
}

}  // namespace
}  // namespace trireme::program
