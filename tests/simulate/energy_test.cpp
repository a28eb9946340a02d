// The energy of simulated steps against closed forms.
// SPDX-License-Identifier: Apache-2.0
#include "simulate/simulated.h"

#include "trireme/schedule/named.h"
#include "trireme/simulate/replay.h"

#include <gtest/gtest.h>

#include <optional>

namespace trireme::simulate {
namespace {

constexpr chain::Power kPower{
    .busy = Watts(100), .idle = Watts(10), .copy_out = Watts(3), .copy_in = Watts(2)};

/// One micro-batch of one stage.
Simulation run_alone(program::StageProgram stage, const chain::Chain& chain,
                     const chain::Platform& platform) {
  program::Lowering lowering;
  lowering.stages = {std::move(stage)};
  lowering.order = schedule::one_f_one_b({1, 1});
  return run(program::lower(lowering), chain, platform);
}

TEST(Energy, IsNoneWhereNothingSaysWhatItCosts) {
  const Simulation simulation =
      run(one_layer_each(2, schedule::one_f_one_b({2, 3})), uneven(), free_platform(2));
  EXPECT_EQ(simulation.energy, Energy{});
}

// Rank 0 computes from 0 to 1 and from 8 to 10, rank 1 in between.
TEST(Energy, IsThatOfComputingAndOfWaitingForOthers) {
  chain::Platform platform = free_platform(2);
  platform.ranks[0].power = kPower;
  platform.ranks[1].power = {.busy = Watts(20), .idle = Watts(5)};
  const Simulation simulation =
      run(one_layer_each(2, schedule::one_f_one_b({2, 1})), uneven(), platform);

  EXPECT_DOUBLE_EQ(simulation.step.count(), 10);
  EXPECT_EQ(simulation.ranks[0].energy, (Energy{.compute = Joules(300), .idle = Joules(70)}));
  EXPECT_EQ(simulation.ranks[1].energy, (Energy{.compute = Joules(140), .idle = Joules(15)}));
  EXPECT_EQ(simulation.energy, (Energy{.compute = Joules(440), .idle = Joules(85)}));
  EXPECT_EQ(simulation.energy.all(), Joules(525));
}

// Half as fast, the rank takes the same joules for passes, and longer for all else.
TEST(Energy, OfALayerThatSaysItsOwnDoesNotDependOnTheRank) {
  chain::Chain chain = chain_of(1, {{1, 2, 1, 1}, {3, 4, 1, 1}});
  chain.layers[0].forward_energy = Joules(7);
  chain.layers[0].backward_energy = Joules(11);
  chain.layers[0].update = chain.layers[1].update = Seconds(1);
  chain::Platform platform = free_platform(1);
  platform.ranks[0].power = kPower;
  EXPECT_EQ(run_alone(program::keep_all(1, 2), chain, platform).energy,
            (Energy{.compute = Joules(7 + 11 + 100 * (3 + 4 + 2))}));

  platform.ranks[0].speed = 0.5;
  EXPECT_EQ(run_alone(program::keep_all(1, 2), chain, platform).energy,
            (Energy{.compute = Joules(7 + 11 + 200 * (3 + 4 + 2))}));
}

TEST(Energy, OfRecomputationIsThatOfTheForwardsThatRunTwice) {
  chain::Chain chain = chain_of(1, {{1, 2, 1, 1}, {3, 4, 1, 1}});
  chain.layers[0].forward_energy = Joules(7);
  chain::Platform platform = free_platform(1);
  platform.ranks[0].power = kPower;
  const Energy energy = run_alone(program::recompute_all(1, 2), chain, platform).energy;
  EXPECT_EQ(energy, (Energy{.compute = Joules(2 * (7 + 300) + 600), .recompute = Joules(7 + 300)}));
}

// An early-stop recomputation of a third of the forward's time takes a third of its joules.
TEST(Energy, OfAnEarlyStopIsItsShareOfTheForward) {
  chain::Chain chain = chain_of(1, {{3, 4, 1, 1}});
  chain.layers[0].forward_energy = Joules(6);
  chain.layers[0].backward_energy = Joules(1);
  chain.layers[0].retape = chain::Retape{
      .time = Seconds(1), .tape = Bytes(1), .tape_transient = {}, .backward_transient = {}};
  const Simulation simulation = run_alone(
      program::with_retapes(program::recompute_all(1, 1), chain), chain, free_platform(1));
  EXPECT_DOUBLE_EQ(simulation.recompute.count(), 1);
  EXPECT_DOUBLE_EQ(simulation.energy.recompute.count(), 2);
  EXPECT_DOUBLE_EQ(simulation.energy.all().count(), 6 + 2 + 1);
}

TEST(Energy, OfASplitBackwardIsThatOfAWholeOne) {
  chain::Chain chain = chain_of(1, {{1, 4, 1, 1}});
  chain.layers[0].backward_energy = Joules(8);
  chain.layers[0].split = chain::SplitBackward{
      .weights = Seconds(1), .pending = {}, .input_transient = {}, .weights_transient = {}};
  const Program whole = one_layer_each(1, schedule::one_f_one_b({1, 1}));
  const Program split = one_layer_each(1, schedule::one_f_one_b_with({1}, 1, {0}));
  ASSERT_NE(split, whole);
  EXPECT_DOUBLE_EQ(run(split, chain, free_platform(1)).energy.all().count(), 8);
}

// Ten bytes of state at 10 bytes a second out and 5 in, while the rank waits.
TEST(Energy, OfCopiesIsThatOfTheTimeTheyTake) {
  chain::Chain chain = chain_of(1, {{1, 2, 1, 1}});
  chain.layers[0].optimizer = Bytes(10);
  chain::Platform platform = free_platform(1);
  platform.ranks[0].power = kPower;
  platform.ranks[0].out = BytesPerSecond(10);
  platform.ranks[0].in = BytesPerSecond(5);
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
  setting.offloaded_optimizer = {Bytes(10)};
  const Simulation simulation = simulate(one_layer_each(1, schedule::one_f_one_b({1, 1})), setting);
  ASSERT_FALSE(simulation.fault);
  EXPECT_EQ(
      simulation.energy,
      (Energy{.compute = Joules(300), .copies = Joules(3 * 1 + 2 * 2), .idle = Joules(10 * 2)}));
}

/// Two layers; the first runs forward at half the speed for a quarter of the watts, and backward,
/// with what is recomputed there, at a quarter of the speed for an eighth.
std::vector<LayerClocks> slow_first_layer() {
  return {{}, {.forward = {2, 0.25}, .backward = {4, 0.125}}, {}};
}

TEST(Clocks, ChangeTimeAndWattsOfTheirPasses) {
  chain::Chain chain = chain_of(1, {{1, 2, 1, 1}, {3, 4, 1, 1}});
  chain.layers[0].backward_energy = Joules(16);
  chain::Platform platform = free_platform(1);
  platform.ranks[0].power = kPower;
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
  setting.clocks = slow_first_layer();
  program::Lowering lowering;
  lowering.stages = {program::recompute_all(1, 2)};
  lowering.order = schedule::one_f_one_b({1, 1});
  const Simulation simulation = simulate(program::lower(lowering), setting);
  ASSERT_FALSE(simulation.fault);
  // Forward 2 at 25 W, 3 at 100 W; again 4 x 1 at 12.5 W and 3 at 100 W; backward 4 x 2 for
  // 4 x 16 / 8 J, 4 at 100 W.
  EXPECT_DOUBLE_EQ(simulation.step.count(), 2 + 3 + 4 + 3 + 8 + 4);
  EXPECT_DOUBLE_EQ(simulation.energy.compute.count(), 50 + 300 + 50 + 300 + 8 + 400);
  EXPECT_DOUBLE_EQ(simulation.energy.recompute.count(), 50 + 300);
}

TEST(Clocks, ChangeWhatReplayPredicts) {
  const chain::Chain chain = chain_of(1, {{1, 2, 1, 1}, {3, 4, 1, 1}});
  const std::vector<LayerClocks> clocks = slow_first_layer();
  const Replay result = replay(chain, program::recompute_all(1, 2), {}, &clocks);
  EXPECT_DOUBLE_EQ(result.forward.count(), 2 + 3);
  EXPECT_DOUBLE_EQ(result.backward.count(), 4 + 3 + 8 + 4);
}

}  // namespace
}  // namespace trireme::simulate
