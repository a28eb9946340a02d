// Where layers are updated during the passes of a step.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/updates.h"

#include "trireme/core/text.h"
#include "trireme/program/generate.h"
#include "trireme/program/groups.h"
#include "trireme/program/weight_uses.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace trireme::program {
namespace {

/// One rank's step of `layers` layers, all taped, in groups.
Program one_rank(int layers, int micro_batches, int group = 1) {
  return in_groups(lower({.stages = {keep_all(1, layers)},
                          .order = schedule::one_f_one_b({1, groups_of(micro_batches, group)}),
                          .end = StepEnd::kReduceClipStep}),
                   group, micro_batches);
}

/// Passes and updates as letters: "F1 U1.0 B1".
std::string passes(const std::vector<Action>& actions) {
  std::vector<std::string> words;
  for (const Action& action : actions) {
    if (is_forward(action.op)) words.push_back(concat("F", action.layer));
    if (action.op == Op::kBackward) words.push_back(concat("B", action.layer));
    if (action.op == Op::kUpdate)
      words.push_back(concat("U", action.layer, ".", action.micro_batch));
  }
  return join(words, " ");
}

TEST(Updates, StandBehindTheLastBackwardOfTheirLayer) {
  const Program program =
      with_updates(one_rank(3, 2), {{1, 3}}, UpdatePlace::kInBackward, kLeastAtOnce);
  EXPECT_EQ(passes(program.ranks[0]), "F1 F2 F3 B3 B2 B1 F1 F2 F3 B3 U3.0 B2 B1 U1.0");
}

TEST(Updates, StandBeforeTheFirstForwardOfTheirLayer) {
  const Program program =
      with_updates(one_rank(3, 2), {{1, 2}}, UpdatePlace::kInForward, kLeastAtOnce);
  EXPECT_EQ(passes(program.ranks[0]), "U1.0 F1 U2.0 F2 F3 B3 B2 B1 F1 F2 F3 B3 B2 B1");
}

// A part after every pass of the layers between this update and its neighbour.
TEST(Updates, OfGroupsAreMadeInParts) {
  EXPECT_EQ(
      passes(with_updates(one_rank(4, 4, 2), {{1, 2, 4}}, UpdatePlace::kInBackward, 3).ranks[0]),
      "F1 F1 F2 F2 F3 F3 F4 B4 F4 B4 B3 B3 B2 B2 B1 B1 "
      "F1 F1 F2 F2 F3 F3 F4 B4 F4 B4 B3 U4.0 B3 U4.1 B2 U4.2 B2 U4.3 B1 U2.0 B1 U2.1 U1.0");
  EXPECT_EQ(passes(with_updates(one_rank(4, 2, 2), {{1, 2}}, UpdatePlace::kInForward, 3).ranks[0]),
            "U1.0 F1 U2.0 F1 U2.1 F2 F2 F3 F3 F4 B4 F4 B4 B3 B3 B2 B2 B1 B1");
}

// No more than micro-batches, evenly spread, the last one after the last pass.
TEST(Updates, HaveNoMorePartsThanMicroBatches) {
  EXPECT_EQ(passes(with_updates(one_rank(4, 2, 2), {{1, 4}}, UpdatePlace::kInBackward, 3).ranks[0]),
            "F1 F1 F2 F2 F3 F3 F4 B4 F4 B4 B3 B3 B2 U4.0 B2 B1 B1 U4.1 U1.0");
}

TEST(Updates, ComeBehindWhatSendsOnTheGradient) {
  const Program program = with_updates(lower({.stages = {keep_all(1, 1), keep_all(2, 3)},
                                              .order = schedule::one_f_one_b({2, 1}),
                                              .end = StepEnd::kReduceClipStep}),
                                       {{}, {2}}, UpdatePlace::kInBackward, kLeastAtOnce);
  std::vector<std::string> last;
  for (std::size_t i = program.ranks[1].size() - 7; i < program.ranks[1].size(); ++i)
    last.push_back(to_text(program.ranks[1][i]));
  EXPECT_EQ(join(last, ", "),
            "0:backward 2, 0:send_gradient 1, 0:update 2, 0:await_state 0, 0:reduce_gradients 0, "
            "0:clip 0, "
            "0:step 0");
}

// The layers around the turn from forward to backward would be copied out with changed weights and
// gradients.
TEST(Updates, BeforeForwardsAreNotOfTheLayersThatStayForTheirBackward) {
  const std::vector<int> streamed{2, 3, 5, 7};
  EXPECT_EQ(updated_layers(streamed, UpdatePlace::kAtEnd, 2), std::vector<int>{});
  EXPECT_EQ(updated_layers(streamed, UpdatePlace::kInBackward, 2), streamed);
  EXPECT_EQ(updated_layers(streamed, UpdatePlace::kInForward, 2), (std::vector<int>{2, 3}));
  EXPECT_EQ(updated_layers(streamed, UpdatePlace::kInForward, 3), (std::vector<int>{2}));
  // All of them stay on the device.
  EXPECT_EQ(updated_layers(streamed, UpdatePlace::kInBackward, 4), std::vector<int>{});
}

// State comes in from the first backward of the last micro-batch on, or first of all, and is gone
// after the last update.
TEST(Updates, StandBetweenTheCopiesOfTheirState) {
  const auto updates = [](UpdatePlace place) {
    return with_updates(one_rank(3, 4, 2), {{1, 2}}, place, 3).ranks[0];
  };
  const auto at = [](const std::vector<Action>& actions, Op op) {
    const auto found = std::find_if(actions.begin(), actions.end(),
                                    [&](const Action& action) { return action.op == op; });
    EXPECT_NE(found, actions.end());
    return static_cast<std::size_t>(found - actions.begin());
  };
  const std::vector<Action> behind = updates(UpdatePlace::kInBackward);
  EXPECT_EQ(to_text(behind[at(behind, Op::kStateIn) + 1]), "3:backward 3");
  EXPECT_EQ(to_text(behind[at(behind, Op::kAwaitState) - 1]), "0:update 1");
  EXPECT_EQ(to_text(behind[at(behind, Op::kAwaitState) + 1]), "0:reduce_gradients 0");
  const std::vector<Action> before = updates(UpdatePlace::kInForward);
  EXPECT_EQ(at(before, Op::kStateIn), 0u);
  EXPECT_EQ(before[at(before, Op::kAwaitState) - 1].op, Op::kUpdate);

  const LayerUpdates found = layer_updates(behind);
  EXPECT_EQ(found.place, UpdatePlace::kInBackward);
  ASSERT_EQ(found.layers.size(), 2u);
  EXPECT_EQ(found.layers[0].layer, 2);
  EXPECT_EQ(found.parts(2), 2);
  EXPECT_EQ(found.parts(1), 1);
  EXPECT_EQ(found.parts(3), 0);
  EXPECT_EQ(layer_updates(before).place, UpdatePlace::kInForward);
  EXPECT_TRUE(layer_updates(one_rank(3, 4, 2).ranks[0]).layers.empty());
}

}  // namespace
}  // namespace trireme::program
