// Which weights are on the device while a rank runs its actions.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weight_uses.h"

#include "program/roll.h"

#include "trireme/core/text.h"
#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trireme::program {
namespace {

/// The first rank's actions of `layers` layers, all of them on it.
std::vector<Action> one_stage(const StageProgram& stage, int micro_batches) {
  return lower({.stages = {stage},
                .order = schedule::one_f_one_b({1, micro_batches}),
                .end = StepEnd::kReduceClipStep})
      .ranks[0];
}

constexpr WeightsKind kStay = WeightsKind::kStay, kFrozen = WeightsKind::kFrozen,
                      kTrained = WeightsKind::kTrained;
using Gradients = HeldLayer::Gradients;

bool has(const HeldWeights& held, int layer) {
  return std::any_of(held.begin(), held.end(),
                     [&](const HeldLayer& one) { return one.layer == layer; });
}

std::vector<int> layers_of(const HeldWeights& held) {
  std::vector<int> layers;
  for (const HeldLayer& one : held) layers.push_back(one.layer);
  return layers;
}

/// What is copied in while the actions run once: "3 after forward_tape 1".
std::vector<std::string> fetches(const std::vector<Action>& actions, const WeightUses& uses) {
  std::vector<std::string> lines;
  HeldWeights held = uses.first;
  for (std::size_t i = 0; i < uses.points.size(); ++i) {
    if (!uses.points[i].ends) continue;
    for (const int layer : layers_of(uses.points[i].ends->held))
      if (!has(held, layer)) lines.push_back(concat(layer, " after ", to_text(actions[i])));
    held = uses.points[i].ends->held;
  }
  return lines;
}

// At the turns, from forward to backward and from there to the next micro-batch, what is needed
// next is on the device already.
TEST(WeightUses, ComeOneLayerAheadAndStayWhereTheOrderTurns) {
  const std::vector<Action> actions = one_stage(keep_all(1, 4), 2);
  const WeightUses uses = weight_uses(actions, {kStay, kFrozen, kFrozen, kFrozen, kFrozen});
  EXPECT_EQ(layers_of(uses.first), (std::vector{1, 2}));
  EXPECT_EQ(fetches(actions, uses),
            (std::vector<std::string>{"3 after 0:forward_tape 1", "4 after 0:forward_tape 2",
                                      "2 after 0:backward 4", "1 after 0:backward 3",
                                      "3 after 1:forward_tape 1", "4 after 1:forward_tape 2",
                                      "2 after 1:backward 4", "1 after 1:backward 3"}));
}

TEST(WeightUses, OfLayersThatStayAreNone) {
  const std::vector<Action> actions = one_stage(recompute_all(1, 4), 1);
  const WeightUses none = weight_uses(actions, std::vector(5, kStay));
  EXPECT_TRUE(none.first.empty());
  EXPECT_TRUE(none.points.empty());
  // Between two uses of layer 3 those of layer 4, which stays, do not count.
  const WeightUses some = weight_uses(actions, {kStay, kFrozen, kStay, kFrozen, kStay});
  EXPECT_EQ(layers_of(some.first), (std::vector{1, 3}));
  EXPECT_TRUE(fetches(actions, some).empty());
}

TEST(WeightUses, OfOneLayerNeedNoSecond) {
  const std::vector<Action> actions = one_stage(keep_all(1, 3), 2);
  const std::vector<WeightsKind> kinds{kStay, kStay, kFrozen, kStay};
  EXPECT_EQ(layers_of(weight_uses(actions, kinds).first), std::vector{2});
  // A larger number at a time means all of them: the search ends after one round.
  const std::vector<Action> many = one_stage(keep_all(1, 3), 50'000);
  EXPECT_EQ(layers_of(weight_uses(many, kinds, 3).first), std::vector{2});
}

// Gradients are on the device for backwards and for the update: begun by the first micro-batch,
// copied back for later ones. Those of layer 1 stay for its forward, which follows its backward.
TEST(WeightUses, OfTrainedLayersTakeTheirGradientsWithThem) {
  const std::vector<Action> actions = one_stage(keep_all(1, 3), 2);
  const WeightUses uses = weight_uses(actions, {kStay, kTrained, kTrained, kTrained});
  std::vector<std::string> lines;
  const auto write = [&](const std::string& name, const WeightUses::Use& use) {
    std::string line = concat(name, ":");
    for (const HeldLayer& one : use.held) {
      EXPECT_TRUE(one.weights);
      line += concat(" ", one.layer,
                     one.gradients == Gradients::kNone  ? ""
                     : one.gradients == Gradients::kNew ? " new"
                                                        : " sums");
    }
    lines.push_back(line);
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    EXPECT_EQ(uses.points[i].needs_gradients, actions[i].op == Op::kBackward);
    if (uses.points[i].ends) write(to_text(actions[i]), *uses.points[i].ends);
    for (const WeightUses::Use& use : uses.points[i].within) {
      EXPECT_EQ(use.change, WeightsChange::kUpdate);
      write(concat(to_text(actions[i]), " of ", use.layer), use);
    }
  }
  EXPECT_EQ(lines,
            (std::vector<std::string>{
                "0:forward_tape 1: 2 3 new", "0:forward_tape 2: 3 new 2 new",
                "0:backward 3: 2 new 1 new", "0:backward 2: 1 new 2", "1:forward_tape 1: 2 3 sums",
                "1:forward_tape 2: 3 sums 2 sums", "1:backward 3: 2 sums 1 sums",
                "1:backward 2: 1 sums 2 sums", "1:backward 1: 1 sums 2 sums",
                "0:step 0 of 1: 2 sums 3 sums", "0:step 0 of 2: 3 sums 1", "0:step 0 of 3: 1 2"}));
}

TEST(WeightUses, OfReplicasAddUpGradientsWithoutTheirWeights) {
  const std::vector<Action> actions = one_stage(keep_all(1, 3), 1);
  const WeightUses uses =
      weight_uses(actions, {kStay, kTrained, kFrozen, kTrained}, kLeastAtOnce, true);
  const auto of = [&](Op op) {
    const auto found = std::find_if(actions.begin(), actions.end(),
                                    [&](const Action& action) { return action.op == op; });
    return uses.points[static_cast<std::size_t>(found - actions.begin())].within;
  };
  ASSERT_EQ(of(Op::kReduceGradients).size(), 2U);
  const WeightUses::Use first = of(Op::kReduceGradients)[0];
  EXPECT_EQ(first.layer, 1);
  EXPECT_EQ(first.change, WeightsChange::kGradients);
  EXPECT_EQ(first.held, (HeldWeights{{3, false, Gradients::kSums}, {1, true, Gradients::kSums}}));
  EXPECT_EQ(of(Op::kStep).size(), 2U);
  EXPECT_TRUE(of(Op::kClip).empty());
}

/// Invariants of any list of actions, found by walking over all of it twice.
TEST(WeightUses, HoldWhatIsNeededNowAndNextForAnyActions) {
  Roll roll(5);
  int ends = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const int layers = roll(1, 6);
    std::vector<WeightsKind> kinds{kStay};
    for (int i = 1; i <= layers; ++i) kinds.push_back(roll(0, 2) > 0 ? kFrozen : kStay);
    std::vector<Action> actions;
    for (int n = roll(0, 30); n > 0; --n)
      actions.push_back({static_cast<Op>(roll(0, static_cast<int>(Op::kPrefetchTape))),
                         roll(1, layers), roll(0, 2)});
    const int at_once = roll(2, 4);
    const WeightUses uses = weight_uses(actions, kinds, at_once);

    const auto needs = [&](const Action& action) {
      return uses_weights(action.op) && kinds[static_cast<std::size_t>(action.layer)] == kFrozen;
    };
    std::vector<int> needed;  // round after round
    for (int round = 0; round < 2; ++round)
      for (const Action& action : actions)
        if (needs(action)) needed.push_back(action.layer);
    ASSERT_EQ(uses.points.size(), needed.empty() ? 0 : actions.size());
    std::size_t next = 0;
    HeldWeights held = uses.first;
    for (std::size_t i = 0; i < uses.points.size(); ++i) {
      const WeightUses::Point& point = uses.points[i];
      EXPECT_EQ(point.needs, needs(actions[i]) ? actions[i].layer : 0);
      if (!needs(actions[i])) {
        EXPECT_FALSE(point.ends);
        continue;
      }
      EXPECT_TRUE(has(held, point.needs));
      ++next;
      if (!point.ends) continue;
      ++ends;
      held = point.ends->held;
      std::set<int> ahead;
      for (std::size_t k = next; k < needed.size(); ++k)
        if (std::cmp_less(ahead.size(), at_once)) ahead.insert(needed[k]);
      const std::vector<int> here = layers_of(held);
      EXPECT_EQ(std::set(here.begin(), here.end()), ahead);
      EXPECT_EQ(here[0], needed[next]);
    }
    EXPECT_EQ(held, uses.first);
  }
  EXPECT_GT(ends, 5000);
}

}  // namespace
}  // namespace trireme::program
