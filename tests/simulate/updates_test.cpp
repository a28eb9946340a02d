// Overlapped optimizer steps in time and bytes.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/updates.h"

#include "simulate/simulated.h"

#include "trireme/program/groups.h"
#include "trireme/schedule/named.h"
#include "trireme/simulate/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace trireme::simulate {
namespace {

using program::UpdatePlace;

/// Equal layers on one rank, forward 1 s, backward 2 s, update 1 s, whose 10 bytes of weights and
/// 10 of gradients are streamed at 10 B/s; `state` bytes of optimizer state of each are offloaded.
struct Updates {
  Updates(int layers, int count, int together, Bytes state = Bytes(0))
      : micro_batches(count), group(together) {
    chain = chain_of(1, std::vector<Costs>(static_cast<std::size_t>(layers), {1, 2, 1, 1}));
    setting.streamed.resize(1);
    for (chain::LayerCost& layer : chain.layers) {
      layer.update = Seconds(1);
      layer.optimizer = state;
      setting.streamed.push_back(
          {.weights = Bytes(10), .gradients = Bytes(10), .is_trained = true});
    }
    platform.ranks[0].host = Bytes(2000);
    platform.ranks[0].in = platform.ranks[0].out = BytesPerSecond(10);
    setting.offloaded_optimizer = {state * layers};
    setting.static_bytes = {Bytes(100)};
  }

  Program program(UpdatePlace place) const { return with_weights(passes(place), setting); }
  /// Without the moves of weights.
  Program passes(UpdatePlace place) const {
    const int last = chain.length();
    const Program whole = program::in_groups(
        program::lower(
            {.stages = {program::keep_all(1, last)},
             .order = schedule::one_f_one_b({1, program::groups_of(micro_batches, group)}),
             .end = program::StepEnd::kReduceClipStep}),
        group, micro_batches);
    std::vector<int> all;
    for (int i = 1; i <= last; ++i) all.push_back(i);
    return program::with_updates(whole,
                                 {program::updated_layers(all, place, setting.weights_at_once)},
                                 place, setting.weights_at_once);
  }
  Simulation run(UpdatePlace place) const {
    const auto fault = validate(program(place), setting);
    EXPECT_EQ(fault ? to_text(*fault) : "", "");
    Simulation result = simulate(program(place), setting, Detail::kTimeline);
    expect_all_time_is_told(result);
    return result;
  }

  int micro_batches, group;
  chain::Chain chain;
  chain::Platform platform = free_platform(1);
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
};

// By hand: nothing ever waits; gradients never move. Layers 1 and 2 are copied out while the next
// step's forwards run, as those of the step before are here. (Timelines show updates as F.)
TEST(SimulateUpdates, BehindBackwardsNeedNoGradientsFromElsewhere) {
  const Simulation result = Updates(4, 1, 1).run(UpdatePlace::kInBackward);
  ASSERT_FALSE(result.fault);
  EXPECT_EQ(timeline(result, 0),
            "F0 0-1, F0 1-2, F0 2-3, F0 3-4, B0 4-6, F0 6-7, B0 7-9, F0 9-10, B0 10-12, F0 12-13, "
            "B0 13-15, F0 15-16");
  EXPECT_DOUBLE_EQ(result.step.count(), 16);
  EXPECT_DOUBLE_EQ(result.ranks[0].busy.count(), 16);
  EXPECT_DOUBLE_EQ(result.ranks[0].wait_for_copies.count(), 0);
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_in.count(), 4);
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_out.count(), 4);
}

// By hand: layers 1 and 2 are updated while 3 and 4 are copied in. Those two stay for their
// backward; at the end their weights and gradients are copied out before all four of 1 and 2 are
// copied in.
TEST(SimulateUpdates, BeforeForwardsAreOfTheStepBefore) {
  const Simulation result = Updates(4, 1, 1).run(UpdatePlace::kInForward);
  ASSERT_FALSE(result.fault);
  EXPECT_EQ(timeline(result, 0),
            "F0 0-1, F0 1-2, F0 2-3, F0 3-4, F0 4-5, F0 5-6, B0 6-8, B0 8-10, B0 10-12, B0 12-14, "
            "F0 14-15, F0 16-17");
  EXPECT_DOUBLE_EQ(result.step.count(), 20);
  EXPECT_DOUBLE_EQ(result.ranks[0].busy.count(), 16);
}

// A layer's state is copied in and out during the backwards of the layer before it, part by part.
TEST(SimulateUpdates, OfGroupsHideTheCopiesOfTheirState) {
  Updates updates(8, 8, 8, Bytes(120));
  updates.setting.weights_at_once = 3;
  updates.setting.update_window = Bytes(60);
  const Simulation at_end = updates.run(UpdatePlace::kAtEnd),
                   behind = updates.run(UpdatePlace::kInBackward),
                   before = updates.run(UpdatePlace::kInForward);
  const double passes = 8 * 8 * 3 + 8;
  EXPECT_DOUBLE_EQ(at_end.ranks[0].busy.count(), passes);
  EXPECT_GE(at_end.step.count(), passes + 8 * 12 - 8);
  // Only the copies of layer 1's state, 12 s, overlap with no passes; and weights of a layer are
  // copied in when another one is copied out, which takes a second.
  EXPECT_NEAR(behind.ranks[0].busy.count(), passes, 1e-9);
  EXPECT_LE(behind.step.count(), passes + 12 + 8);
  // Forwards are half as long: 8 s of 12.
  EXPECT_NEAR(before.ranks[0].busy.count(), passes, 1e-9);
  EXPECT_LT(before.step, at_end.step - Seconds(4 * 6));
  for (const Simulation* const one : {&at_end, &behind, &before}) {
    EXPECT_GE(one->ranks[0].copies_out.count(), 8 * 12);
    EXPECT_EQ(one->ranks[0].state_moved, Bytes(8 * 120));
  }
}

// State that is prefetched overlaps with passes: with more of it on the device at a time, waits are
// shorter. (At most all state of a layer.)
TEST(SimulateUpdates, WithMoreStateAtATimeWaitLess) {
  Updates updates(6, 1, 1, Bytes(40));
  Seconds before{1e9};
  for (const int window : {6, 12, 24, 48, 80}) {
    updates.setting.update_window = Bytes(window);
    const Simulation result = updates.run(UpdatePlace::kInBackward);
    EXPECT_LT(result.step, before) << window;
    before = result.step;
  }
  // By hand: nothing waits but the update of layer 6, whose 40 bytes take 4 s of which 2 s are
  // hidden, and the end of the step, until layer 1's state is copied out.
  EXPECT_GE(before.count(), 6 * 4);
}

std::string refusal(const Updates& updates, const Program& program) {
  const auto fault = validate(program, updates.setting);
  return fault ? to_text(*fault) : "";
}

TEST(ValidateUpdates, SaysWhatIsWrongWithThem) {
  Updates updates(4, 1, 1);
  EXPECT_EQ(refusal(updates, updates.program(UpdatePlace::kInBackward)), "");
  const Program behind = updates.passes(UpdatePlace::kInBackward);
  updates.setting.replicas = 2;
  EXPECT_EQ(refusal(updates, behind),
            "rank 0, action 9 (0:update 4): replicas sum their gradients at the end of the step: "
            "no layer is updated before");
  EXPECT_EQ(refusal(updates, updates.program(UpdatePlace::kInForward)), "");
  updates.setting.replicas = 1;

  Program changed = behind;
  changed.ranks[0].insert(changed.ranks[0].begin() + 10, {Op::kUpdate, 4, 0});
  EXPECT_EQ(refusal(updates, changed),
            "rank 0, action 10 (0:update 4): is part 0 of an update, expected 1");
  changed = behind;
  std::swap(changed.ranks[0][8], changed.ranks[0][9]);
  EXPECT_EQ(refusal(updates, changed),
            "rank 0, action 8 (0:update 4): an update must be before all forwards of its layer or "
            "after all its backwards");
  changed = updates.passes(UpdatePlace::kInForward);
  const auto ends =
      std::find(changed.ranks[0].begin(), changed.ranks[0].end(), program::Action{Op::kAwaitState});
  std::rotate(ends, ends + 1, changed.ranks[0].end() - 3);
  changed.ranks[0].insert(changed.ranks[0].end() - 4, {Op::kUpdate, 4, 0});
  EXPECT_EQ(refusal(updates, changed),
            "rank 0, action 14 (0:update 4): all updates must be before forwards, or all after "
            "backwards");
  changed = behind;
  changed.ranks[0].resize(changed.ranks[0].size() - 3);
  EXPECT_EQ(refusal(updates, changed),
            "rank 0, action 9 (0:update 4): a program that updates layers ends with a step");
  changed = behind;
  changed.ranks[0].erase(changed.ranks[0].begin());
  std::erase(changed.ranks[0], program::Action{Op::kStateIn});
  EXPECT_EQ(refusal(updates, changed),
            "rank 0, action 7 (0:update 4): state_in comes before the first update");
  changed = behind;
  std::erase(changed.ranks[0], program::Action{Op::kAwaitState});
  changed.ranks[0].insert(changed.ranks[0].begin() + 10, {Op::kAwaitState});
  EXPECT_EQ(refusal(updates, changed),
            "rank 0, action 10 (0:await_state 0): await_state comes once, after the last update");
  updates.setting.streamed[4] = {};
  EXPECT_EQ(refusal(updates, behind),
            "rank 0, action 9 (0:update 4): only layers with streamed trained weights have an "
            "update of their own");
}

}  // namespace
}  // namespace trireme::simulate
