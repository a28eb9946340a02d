// The times of the simulator against closed forms, timelines drawn by hand, and the replay of one
// stage.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/simulate.h"

#include "simulate/simulated.h"

#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"
#include "trireme/simulate/place_copies.h"
#include "trireme/simulate/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::simulate {
namespace {

using testing::Contains;

// 2.4 s of the update of 6 s are for offloaded state; its copies in take 10 s, those out 4 s.
TEST(Simulate, OptimizerStateThatIsOffloadedTakesTheLongestOfItsCopiesAndItsUpdate) {
  chain::Chain chain = chain_of(1, {{1, 2, 1, 1}});
  chain.layers[0].update = Seconds(6);
  chain.layers[0].optimizer = Bytes(100);
  chain::Platform platform = free_platform(1);
  platform.ranks[0].out = BytesPerSecond(10);
  platform.ranks[0].in = BytesPerSecond(4);
  const Program program = one_layer_each(1, schedule::one_f_one_b({1, 1}));
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
  EXPECT_DOUBLE_EQ(simulate(program, setting).step.count(), 3 + 6);

  setting.offloaded_optimizer = {Bytes(40)};
  const Simulation moved = simulate(program, setting);
  ASSERT_FALSE(moved.fault);
  EXPECT_DOUBLE_EQ(moved.step.count(), 3 + 3.6 + 10);
  EXPECT_DOUBLE_EQ(moved.ranks[0].busy.count(), 3 + 6);
  EXPECT_DOUBLE_EQ(moved.ranks[0].wait_for_copies.count(), 10 - 2.4);
  EXPECT_DOUBLE_EQ(moved.ranks[0].copies_in.count(), 10);
  EXPECT_DOUBLE_EQ(moved.ranks[0].copies_out.count(), 4);
  EXPECT_EQ(moved.ranks[0].offloaded.all(), Bytes(40));
  EXPECT_EQ(moved.ranks[0].state_moved, Bytes(40));
  EXPECT_EQ(moved.ranks[0].moved, Bytes(0));
  expect_all_time_is_told(moved);

  platform.ranks[0].in = platform.ranks[0].out = BytesPerSecond(1000);
  EXPECT_DOUBLE_EQ(simulate(program, setting).step.count(), 3 + 6);
  platform.ranks[0].in = BytesPerSecond(0);
  const Simulation stuck = simulate(program, setting);
  ASSERT_TRUE(stuck.fault);
  EXPECT_EQ(stuck.fault->reason,
            "rank 0 has optimizer state in the offload tier, but no copy lanes");
}

// Three parts of a line each are on the device while the first one is updated.
TEST(Simulate, AStepHasRoomForTheLeastPartsOfStateThatIsOffloaded) {
  chain::Chain chain = chain_of(1, {{1, 2, 1, 1}});
  chain.layers[0].optimizer = Bytes(100'000);
  chain.state_line = Bytes(768);
  chain::Platform platform = free_platform(1);
  platform.ranks[0].out = platform.ranks[0].in = BytesPerSecond(1000);
  const Program program = one_layer_each(1, schedule::one_f_one_b({1, 1}));
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {Bytes(5000)}};
  const Bytes of_passes = simulate(program, setting).ranks[0].peak.size;
  EXPECT_LT(of_passes, Bytes(5100));

  setting.offloaded_optimizer = {Bytes(40'000)};
  const Simulation moved = simulate(program, setting, Detail::kTimeline);
  EXPECT_EQ(moved.ranks[0].peak.size, Bytes(5000 + 3 * 768 + 1024));
  EXPECT_EQ(to_text(moved.ranks[0].peak.action.value()), "0:step 0");
  EXPECT_EQ(moved.ranks[0].offloaded.state, Bytes(40'000 + 768)) << "a cut is at a line";
  const PlacedBytes placed = place_copies(program, setting, moved).ranks[0];
  EXPECT_EQ(placed.peak, moved.ranks[0].peak.size);

  chain.layers[0].tape = Bytes(10'000);
  EXPECT_GT(simulate(program, setting).ranks[0].peak.size, Bytes(15'000));
}

// Four replicas: 3/4 of 80 bytes of gradients there, and as much back or 3/4 of 40 of weights, at
// 10 bytes per second, three messages each way.
TEST(Simulate, ReplicasAddUpGradientsAndHandRoundWhatEachHasUpdated) {
  chain::Chain chain = chain_of(1, {{1, 2, 1, 1}});
  chain.layers[0].update = Seconds(6);
  chain.layers[0].gradients = Bytes(80);
  chain.layers[0].parameters = Bytes(50);
  chain.layers[0].frozen = Bytes(10);
  chain::Platform platform = free_platform(1);
  platform.replica_link = {BytesPerSecond(10), Seconds(0.5)};
  const Program program = one_layer_each(1, schedule::one_f_one_b({1, 1}));
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
  EXPECT_DOUBLE_EQ(simulate(program, setting).step.count(), 3 + 6);
  setting.replicas = 4;
  EXPECT_DOUBLE_EQ(simulate(program, setting).step.count(), 3 + 6 + 2 * (6 + 1.5));
  setting.optimizer_shards = 4;
  const Simulation divided = simulate(program, setting);
  EXPECT_DOUBLE_EQ(divided.step.count(), 3 + 6 + (6 + 1.5) + (3 + 1.5));
  EXPECT_DOUBLE_EQ(divided.ranks[0].busy.count(), 3 + 6);
  EXPECT_DOUBLE_EQ(divided.ranks[0].wait_for_ranks.count(), (6 + 1.5) + (3 + 1.5));
}

// Layers 1 and 3 on rank 1, layer 2 on rank 2, none on rank 0.
TEST(Simulate, UpdatesOfARankAreThoseOfItsOwnLayers) {
  chain::Chain chain = chain_of(1, std::vector<Costs>(3, {1, 2, 1, 1}));
  chain.layers[0].update = chain.layers[2].update = Seconds(100);
  chain.layers[1].update = Seconds(1000);
  program::Lowering lowering{
      {program::keep_all(1, 1), program::keep_all(2, 2), program::keep_all(3, 3)},
      schedule::on_ranks(schedule::one_f_one_b({3, 1}), {1, 2, 1})};
  lowering.placement = {1, 2, 1};
  const Simulation result = run(program::lower(lowering), chain, free_platform(3));

  EXPECT_DOUBLE_EQ(result.ranks[0].busy.count(), 0);
  EXPECT_DOUBLE_EQ(result.ranks[1].busy.count(), 2 * 3 + 2 * 100);
  EXPECT_DOUBLE_EQ(result.ranks[2].busy.count(), 3 + 1000);
}

TEST(Simulate, EqualStagesReachTheClosedForm) {
  // Huang et al. 2019, Narayanan et al. 2021: step (m + p - 1)(f + b), bubble (p - 1)/(m + p - 1).
  constexpr double kForward = 1;
  constexpr double kBackward = 2;
  for (int p = 1; p <= 8; ++p) {
    const chain::Chain chain =
        chain_of(1, std::vector<Costs>(static_cast<std::size_t>(p), {kForward, kBackward, 1, 1}));
    for (int m = 1; m <= 16; ++m) {
      for (const auto order : {schedule::one_f_one_b, schedule::gpipe}) {
        const Simulation result = run(one_layer_each(p, order({p, m})), chain, free_platform(p));
        EXPECT_DOUBLE_EQ(result.step.count(), (m + p - 1) * (kForward + kBackward));
        EXPECT_NEAR(result.bubble, static_cast<double>(p - 1) / (m + p - 1), 1e-12);
        EXPECT_EQ(result.recompute, Seconds(0));
      }
    }
  }
}

TEST(Simulate, ManyRanksReachTheClosedFormToo) {
  constexpr int kRanks = 96;
  constexpr int kMicroBatches = 160;
  const chain::Chain chain = chain_of(1, std::vector<Costs>(kRanks, {3, 5, 1, 1}));
  const Simulation result =
      run(one_layer_each(kRanks, schedule::one_f_one_b({kRanks, kMicroBatches})), chain,
          free_platform(kRanks));
  EXPECT_DOUBLE_EQ(result.step.count(), (kMicroBatches + kRanks - 1) * 8.0);
}

TEST(Simulate, UnevenStagesByHand) {
  const Simulation result = run(one_layer_each(2, schedule::one_f_one_b({2, 2})), uneven(),
                                free_platform(2), Detail::kTimeline);

  EXPECT_EQ(timeline(result, 0), "F0 0-1, F1 1-2, B0 8-10, B1 15-17");
  EXPECT_EQ(timeline(result, 1), "F0 1-4, B0 4-8, F1 8-11, B1 11-15");
  EXPECT_DOUBLE_EQ(result.step.count(), 17);
  EXPECT_DOUBLE_EQ(result.bubble, 1 - 20.0 / 34);
  EXPECT_DOUBLE_EQ(result.ranks[0].busy.count(), 6);
  EXPECT_DOUBLE_EQ(result.ranks[0].wait_for_ranks.count(), 6 + 5);
  EXPECT_DOUBLE_EQ(result.ranks[1].wait_for_ranks.count(), 1);
  EXPECT_DOUBLE_EQ(result.ranks[1].end.count(), 15);
}

TEST(Simulate, UnevenStagesGPipeByHand) {
  const Simulation result = run(one_layer_each(2, schedule::gpipe({2, 2})), uneven(),
                                free_platform(2), Detail::kTimeline);

  EXPECT_EQ(timeline(result, 0), "F0 0-1, F1 1-2, B0 11-13, B1 15-17");
  EXPECT_EQ(timeline(result, 1), "F0 1-4, F1 4-7, B0 7-11, B1 11-15");
}

TEST(Simulate, MessagesTakeTheirLinksTimeOneAfterTheOther) {
  chain::Platform platform = free_platform(2);
  platform.default_link = {BytesPerSecond(10), Seconds(0.5)};

  const Simulation result =
      run(one_layer_each(2, schedule::one_f_one_b({2, 2})), uneven(), platform, Detail::kTimeline);

  // The lane is taken for a second each, half a second of latency overlaps with the next message.
  EXPECT_EQ(timeline(result, 0, Lane::kLink), "F0 1-2.5, F1 2-3.5");
  EXPECT_EQ(timeline(result, 1, Lane::kLink), "B0 9.5-11, B1 16.5-18");
  EXPECT_EQ(timeline(result, 0), "F0 0-1, F1 1-2, B0 11-13, B1 18-20");
  EXPECT_EQ(timeline(result, 1), "F0 2.5-5.5, B0 5.5-9.5, F1 9.5-12.5, B1 12.5-16.5");
}

TEST(Simulate, BurstsOfMessagesQueueOnTheirLane) {
  chain::Platform platform = free_platform(2);
  platform.default_link = {BytesPerSecond(2), Seconds(0)};  // five seconds a message

  const Simulation result =
      run(one_layer_each(2, schedule::gpipe({2, 2})), uneven(), platform, Detail::kTimeline);

  EXPECT_EQ(timeline(result, 0, Lane::kLink), "F0 1-6, F1 6-11");
}

TEST(Simulate, LinksMayDiffer) {
  chain::Platform platform = free_platform(3);
  platform.overrides.push_back({2, 1, {BytesPerSecond(10), Seconds(0)}});
  const chain::Chain chain = chain_of(10, std::vector<Costs>(3, {1, 1, 10, 10}));

  const Simulation result = run(one_layer_each(3, schedule::one_f_one_b({3, 1})), chain, platform);

  EXPECT_DOUBLE_EQ(result.step.count(), 6 + 2);
}

TEST(Simulate, SenderWaitsWhenTheChannelIsFull) {
  // Stage 0 is ten times as fast and could run ahead.
  const chain::Chain chain = chain_of(1, {{1, 1, 1, 1}, {10, 1, 1, 1}});
  const Program program = one_layer_each(2, schedule::gpipe({2, 4}));

  const Simulation one = run(program, chain, free_platform(2), Detail::kTimeline, 1);
  const Simulation two = run(program, chain, free_platform(2), Detail::kTimeline, 2);

  // Stage 1 receives at 1, 11, 21, 31. With room for one, output 2 waits until 11, output 3
  // until 21.
  EXPECT_THAT(timeline(one, 0), testing::StartsWith("F0 0-1, F1 1-2, F2 2-3, F3 11-12, B0 "));
  EXPECT_THAT(timeline(two, 0), testing::StartsWith("F0 0-1, F1 1-2, F2 2-3, F3 3-4, B0 "));
  EXPECT_EQ(one.step, two.step);
}

TEST(Simulate, FasterRanksTakeLess) {
  chain::Platform platform = free_platform(2);
  platform.ranks[1].speed = 2;

  const Simulation result =
      run(one_layer_each(2, schedule::one_f_one_b({2, 2})), uneven(), platform, Detail::kTimeline);

  EXPECT_EQ(timeline(result, 1), "F0 1-2.5, B0 2.5-4.5, F1 4.5-6, B1 6-8");
}

TEST(Simulate, RecomputationRunsWhileTheGradientIsUnderWay) {
  const chain::Chain chain = chain_of(1, {{2, 1, 1, 1}, {5, 5, 1, 1}});
  program::Lowering lowering{{program::recompute_all(1, 1), program::keep_all(2, 2)},
                             schedule::one_f_one_b({2, 1})};

  const Simulation result =
      run(program::lower(lowering), chain, free_platform(2), Detail::kTimeline);

  EXPECT_EQ(timeline(result, 0), "F0 0-2, F0 2-4, B0 12-13");
  EXPECT_DOUBLE_EQ(result.recompute.count(), 2);
  EXPECT_DOUBLE_EQ(result.ranks[0].recompute.count(), 2);
  EXPECT_FALSE(result.events[0].again);
  EXPECT_THAT(result.events, Contains(testing::Field(&Event::again, true)));
}

TEST(Simulate, ReportsWhatStopsIt) {
  const chain::Chain chain = uneven();
  const chain::Platform platform = free_platform(2);
  Program program = one_layer_each(2, schedule::one_f_one_b({2, 2}));
  std::erase(program.ranks[1], program::parse_action("1:send_gradient 1"));

  const Simulation result = simulate(program, {&chain, &platform, {}});

  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(to_text(*result.fault),
            "rank 0, action 8 (1:receive_gradient 1): waits for rank 1, which has ended and never "
            "sends the gradient of x[1] of micro-batch 1");
}

TEST(Simulate, RankWithoutLayersOnlyWaits) {
  const chain::Chain chain = chain_of(1, {{1, 1, 1, 1}});
  const Program program = program::lower(
      {{program::keep_all(1, 1)}, schedule::on_ranks(schedule::one_f_one_b({1, 2}), {1}), {1}});

  const Simulation result = run(program, chain, free_platform(2));

  EXPECT_EQ(result.ranks[0].busy, Seconds(0));
  EXPECT_DOUBLE_EQ(result.bubble, 0.5);
}

class OneStage : public testing::TestWithParam<unsigned> {};

TEST_P(OneStage, PeaksAndTakesTimeAsItsReplaySays) {
  Dice dice(GetParam());
  const int layers = dice.roll(1, 8);
  const bool copies = dice.roll(0, 1) == 1;
  const chain::Chain chain = random_chain(dice, layers);
  const program::StageProgram stage = RandomStage(dice, 1, layers, copies).make();
  const int micro_batches = dice.roll(1, 3);
  chain::Platform platform = free_platform(1);
  platform.ranks[0].out = BytesPerSecond(dice.roll(1, 4));
  platform.ranks[0].in = BytesPerSecond(dice.roll(1, 4));

  const Replay alone = replay(chain, stage, {platform.ranks[0].out, platform.ranks[0].in, {}});
  const Simulation all =
      run(program::lower({{stage}, schedule::one_f_one_b({1, micro_batches})}), chain, platform);

  ASSERT_EQ(alone.fault ? to_text(*alone.fault) : "", "");
  EXPECT_EQ(all.ranks[0].peak.size, alone.peak);
  EXPECT_NEAR(all.step.count(), alone.time.count() * micro_batches, 1e-9);
  EXPECT_NEAR(all.recompute.count(), alone.recompute.count() * micro_batches, 1e-9);
  EXPECT_EQ(all.ranks[0].moved, alone.moved * micro_batches);
  Bytes sum;
  for (const auto& [what, size] : all.ranks[0].peak.contents) sum += size;
  EXPECT_EQ(sum, all.ranks[0].peak.size) << "the contents add up";
}

INSTANTIATE_TEST_SUITE_P(Seeds, OneStage, testing::Range(0U, 200U));

}  // namespace
}  // namespace trireme::simulate
