// Copies of a rank's streamed weights and gradients: never less is there than needed, never more
// than the window holds, and nothing that changed is lost.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weights_here.h"

#include "program/roll.h"

#include "trireme/chain/chain.h"
#include "trireme/program/generate.h"
#include "trireme/program/groups.h"
#include "trireme/program/updates.h"
#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace trireme::program {
namespace {

using Gradients = HeldLayer::Gradients;
using Kind = WeightsMove::Kind;

TEST(WeightsHere, MoveOnlyWhatTheOffloadTierDoesNotHave) {
  WeightsHere here;
  EXPECT_EQ(here.hold({{1}, {2, true, Gradients::kNew}}),
            (std::vector<WeightsMove>{
                {Kind::kIn, 1, false}, {Kind::kIn, 2, false}, {Kind::kTake, 2, true}}));
  here.used(1, WeightsChange::kNothing);
  EXPECT_EQ(here.hold({{2, true, Gradients::kNew}, {3}}),
            (std::vector<WeightsMove>{{Kind::kLetGo, 1, false}, {Kind::kIn, 3, false}}));
  here.used(2, WeightsChange::kGradients);
  EXPECT_EQ(here.hold({{3}, {2}}), (std::vector<WeightsMove>{{Kind::kOut, 2, true}}));
  EXPECT_EQ(here.hold({{3}, {2, true, Gradients::kSums}}),
            (std::vector<WeightsMove>{{Kind::kIn, 2, true}}));
  here.used(2, WeightsChange::kUpdate);
  EXPECT_EQ(here.hold({}),
            (std::vector<WeightsMove>{
                {Kind::kOut, 2, false}, {Kind::kLetGo, 2, true}, {Kind::kLetGo, 3, false}}));
  EXPECT_FALSE(here.has_weights(2));
  // What was copied in and not used is not copied out.
  here.hold({{2, true, Gradients::kSums}});
  EXPECT_EQ(here.hold({}),
            (std::vector<WeightsMove>{{Kind::kLetGo, 2, false}, {Kind::kLetGo, 2, true}}));
}

/// Runs steps of a program of streamed layers and follows every copy: what the device has of each
/// layer, by number of the change that it carries.
class Walk {
 public:
  Walk(const std::vector<chain::OffloadWeights>& sizes, int at_once)
      : sizes_(sizes),
        window_(chain::weights_window(sizes, at_once)),
        device_(sizes.size()),
        offload_(sizes.size()),
        now_(sizes.size()) {}

  void step(const std::vector<Action>& actions, const WeightUses& uses) {
    hold(uses.first);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const WeightUses::Point& point = uses.points[i];
      const bool is_update = actions[i].op == Op::kUpdate;
      if (point.needs != 0) expect_here(point.needs, is_update || actions[i].op == Op::kBackward);
      if (is_update) update_in_part(actions[i]);
      if (actions[i].op == Op::kBackward && point.needs_gradients) add_to_sums(point.needs);
      if (point.ends) end(*point.ends);
      for (const WeightUses::Use& use : point.within) {
        if (actions[i].op == Op::kStep) {
          expect_here(use.layer, true);
          update(use.layer, /*is_last=*/true);
        }
        end(use);
      }
    }
  }
  /// Sets the program of the next steps.
  void set_program(int micro_batches, const LayerUpdates& updates) {
    micro_batches_ = micro_batches;
    updates_ = updates;
  }
  /// How often each layer's weights have changed as a whole.
  int updates_of(int layer) { return at(now_, layer).updates; }
  Bytes most() const { return most_; }

 private:
  /// Changes of the weights, micro-batches in the gradients.
  struct State {
    int weights = 0, sums = 0, updates = 0;
  };
  static State& at(std::vector<State>& of, int layer) {
    return of[static_cast<std::size_t>(layer)];
  }

  void expect_here(int layer, bool backward) {
    EXPECT_TRUE(here_.has_weights(layer));
    EXPECT_EQ(at(device_, layer).weights, at(now_, layer).weights);
    const bool is_trained = sizes_[static_cast<std::size_t>(layer)].is_trained;
    if (!backward || !is_trained) return;
    EXPECT_TRUE(here_.has_gradients(layer));
    if (at(now_, layer).sums > 0) {
      EXPECT_EQ(at(device_, layer).sums, at(now_, layer).sums);
    }
  }
  // Before the first step's forwards there is nothing to update.
  void update_in_part(const Action& action) {
    if (at(now_, action.layer).sums == 0) return;
    update(action.layer, action.micro_batch + 1 == updates_.parts(action.layer));
  }
  void update(int layer, bool is_last) {
    EXPECT_EQ(at(device_, layer).sums, micro_batches_);
    at(device_, layer).weights = ++at(now_, layer).weights;
    if (!is_last) return;
    at(now_, layer).sums = 0;
    ++at(now_, layer).updates;
  }
  void add_to_sums(int layer) { at(device_, layer).sums = ++at(now_, layer).sums; }
  void end(const WeightUses::Use& use) {
    here_.used(use.layer, use.change);
    hold(use.held);
  }
  void hold(const HeldWeights& held) {
    leaving_ = Bytes(0);
    for (const WeightsMove& move : here_.hold(held)) {
      const chain::OffloadWeights& size = sizes_[static_cast<std::size_t>(move.layer)];
      const Bytes bytes = move.of_gradients ? size.gradients : size.weights;
      int State::*part = move.of_gradients ? &State::sums : &State::weights;
      if (move.kind == Kind::kOut) {
        EXPECT_EQ(leaving_, Bytes(0));
        leaving_ = bytes;
        at(offload_, move.layer).*part = at(device_, move.layer).*part;
      }
      if (move.kind == Kind::kIn) at(device_, move.layer).*part = at(offload_, move.layer).*part;
      const bool goes = move.kind == Kind::kOut || move.kind == Kind::kLetGo;
      held_ += goes ? Bytes(0) - bytes : bytes;
      if (goes) at(device_, move.layer).*part = -1;
    }
    most_ = std::max(most_, held_ + leaving_);
    EXPECT_LE(held_ + leaving_, window_);
  }

  const std::vector<chain::OffloadWeights>& sizes_;
  Bytes window_, held_, leaving_, most_;
  std::vector<State> device_, offload_, now_;
  WeightsHere here_;
  int micro_batches_ = 0;
  LayerUpdates updates_;
};

TEST(WeightsHere, HaveWhatIsNeededAndLoseNothingWithinTheWindow) {
  Roll roll(11);
  int full = 0, in_parts = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const int layers = roll(1, 9), micro_batches = roll(1, 4), at_once = roll(2, 4);
    std::vector<WeightsKind> kinds{WeightsKind::kStay};
    std::vector<chain::OffloadWeights> sizes(1);
    std::vector<int> trained;
    const bool equal = roll(0, 1) == 0;
    for (int i = 1; i <= layers; ++i) {
      kinds.push_back(static_cast<WeightsKind>(equal ? 2 : roll(0, 2)));
      const bool is_trained = kinds.back() == WeightsKind::kTrained;
      if (is_trained) trained.push_back(i);
      sizes.emplace_back();
      if (kinds.back() == WeightsKind::kStay) continue;
      sizes.back() = {.weights = Bytes(equal ? 2 : roll(1, 9)),
                      .gradients = Bytes(!is_trained ? 0
                                         : equal     ? 4
                                                     : roll(1, 9)),
                      .is_trained = is_trained};
    }
    std::vector<StageProgram> stages;
    const int cut = roll(0, 1) == 0 ? roll(1, layers) : layers;
    for (const auto& [first, last] : {std::pair(1, cut), {cut + 1, layers}}) {
      if (first > last) continue;
      stages.push_back(roll(0, 1) == 0 ? keep_all(first, last) : recompute_all(first, last));
    }
    const auto count = static_cast<int>(stages.size());
    const int group = roll(1, micro_batches);
    const schedule::Placement placement(stages.size(), 0);
    Program program = in_groups(
        lower({.stages = stages,
               .order = schedule::on_ranks(
                   schedule::one_f_one_b({count, groups_of(micro_batches, group)}), placement),
               .placement = placement,
               .end = StepEnd::kReduceClipStep}),
        group, micro_batches);
    // Ranks with several stages do not run their layers in order.
    const auto place = static_cast<UpdatePlace>(count == 1 ? roll(0, 2) : 0);
    const std::vector<int> updated = updated_layers(trained, place, at_once);
    program = with_updates(std::move(program), {updated}, place, at_once);
    const std::vector<Action>& actions = program.ranks[0];
    const bool has_replicas = place != UpdatePlace::kInBackward && roll(0, 1) == 0;
    const WeightUses uses = weight_uses(actions, kinds, at_once, has_replicas);
    if (uses.points.empty()) continue;
    constexpr int kSteps = 3;
    Walk walk(sizes, at_once);
    walk.set_program(micro_batches, layer_updates(actions));
    for (int step = 0; step < kSteps; ++step) walk.step(actions, uses);
    for (const int layer : trained) {
      const bool lags = place == UpdatePlace::kInForward &&
                        std::find(updated.begin(), updated.end(), layer) != updated.end();
      EXPECT_EQ(walk.updates_of(layer), lags ? kSteps - 1 : kSteps);
    }
    in_parts += at_once > kLeastAtOnce && group > 1 && !updated.empty();
    full += walk.most() == chain::weights_window(sizes, at_once);
  }
  EXPECT_GT(full, 500);
  EXPECT_GT(in_parts, 100);
}

}  // namespace
}  // namespace trireme::program
