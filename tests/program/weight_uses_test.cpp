// Which weights are on the device while a rank runs its actions.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weight_uses.h"

#include "trireme/core/text.h"
#include "trireme/program/generate.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trireme::program {
namespace {

/// The first rank's actions of `layers` layers, all of them on it.
std::vector<Action> one_stage(const StageProgram& stage, int micro_batches) {
  return lower({.stages = {stage},
                .order = one_f_one_b({1, micro_batches}),
                .rank_of_stage = {},
                .end = StepEnd::kReduceClipStep})
      .ranks[0];
}

/// What comes while the actions run once: "3 after forward_tape 1".
std::vector<std::string> fetches(const std::vector<Action>& actions, const WeightUses& uses) {
  std::vector<std::string> lines;
  HeldWeights held = uses.first;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (!uses.points[i].ends_use) continue;
    for (const int layer : uses.points[i].held.layers)
      if (!held.has(layer)) lines.push_back(concat(layer, " after ", to_text(actions[i])));
    held = uses.points[i].held;
  }
  return lines;
}

// At the turns, from forward to backward and from there to the next micro-batch, what is needed
// next is there already.
TEST(WeightUses, ComeOneLayerAheadAndStayWhereTheOrderTurns) {
  const std::vector<Action> actions = one_stage(keep_all(1, 4), 2);
  const WeightUses uses = weight_uses(actions, {false, true, true, true, true});
  EXPECT_EQ(uses.first.layers, (std::vector{1, 2}));
  EXPECT_EQ(fetches(actions, uses),
            (std::vector<std::string>{"3 after 0:forward_tape 1", "4 after 0:forward_tape 2",
                                      "2 after 0:backward 4", "1 after 0:backward 3",
                                      "3 after 1:forward_tape 1", "4 after 1:forward_tape 2",
                                      "2 after 1:backward 4", "1 after 1:backward 3"}));
}

TEST(WeightUses, OfLayersThatStayAreNone) {
  const std::vector<Action> actions = one_stage(recompute_all(1, 4), 1);
  const WeightUses none = weight_uses(actions, {false, false, false, false, false});
  EXPECT_EQ(none.first, HeldWeights{});
  for (const WeightUses::Point& point : none.points) {
    EXPECT_EQ(point.needs, 0);
    EXPECT_FALSE(point.ends_use);
  }
  // Between two uses of layer 3 those of layer 4, which stays, do not count.
  const WeightUses some = weight_uses(actions, {false, true, false, true, false});
  EXPECT_EQ(some.first.layers, (std::vector{1, 3}));
  EXPECT_TRUE(fetches(actions, some).empty());
}

TEST(WeightUses, OfOneLayerNeedNoSecond) {
  const std::vector<Action> actions = one_stage(keep_all(1, 3), 2);
  EXPECT_EQ(weight_uses(actions, {false, false, true, false}).first.layers, std::vector{2});
  // And as many as there are do for more at a time: nothing more is looked for, round and round.
  const std::vector<Action> many = one_stage(keep_all(1, 3), 50'000);
  EXPECT_EQ(weight_uses(many, {false, false, true, false}, 3).first.layers, std::vector{2});
}

/// What has to hold of any list of actions, found by walking over all of it twice.
TEST(WeightUses, HoldWhatIsNeededNowAndNextForAnyActions) {
  std::mt19937 random(5);
  const auto roll = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const int layers = roll(1, 6);
    std::vector<bool> is_streamed{false};
    for (int i = 1; i <= layers; ++i) is_streamed.push_back(roll(0, 2) > 0);
    std::vector<Action> actions;
    for (int n = roll(0, 30); n > 0; --n)
      actions.push_back({static_cast<Op>(roll(0, static_cast<int>(Op::kPrefetchTape))),
                         roll(1, layers), roll(0, 2)});
    const int at_once = roll(2, 4);
    const WeightUses uses = weight_uses(actions, is_streamed, at_once);
    ASSERT_EQ(uses.points.size(), actions.size());

    std::vector<int> needed;  // round after round
    for (int round = 0; round < 2; ++round)
      for (const Action& action : actions)
        if (uses_weights(action.op) && is_streamed[static_cast<std::size_t>(action.layer)])
          needed.push_back(action.layer);
    std::size_t next = 0;
    HeldWeights held = uses.first;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const WeightUses::Point& point = uses.points[i];
      const bool needs =
          uses_weights(actions[i].op) && is_streamed[static_cast<std::size_t>(actions[i].layer)];
      EXPECT_EQ(point.needs, needs ? actions[i].layer : 0);
      if (!needs) {
        EXPECT_FALSE(point.ends_use);
        continue;
      }
      EXPECT_TRUE(held.has(point.needs));
      ++next;
      if (!point.ends_use) continue;
      held = point.held;
      std::set<int> ahead;
      for (std::size_t k = next; k < needed.size(); ++k)
        if (std::cmp_less(ahead.size(), at_once)) ahead.insert(needed[k]);
      EXPECT_EQ(std::set(held.layers.begin(), held.layers.end()), ahead);
      EXPECT_EQ(held.layers[0], needed[next]);
    }
    EXPECT_EQ(held, uses.first);
  }
}

}  // namespace
}  // namespace trireme::program
