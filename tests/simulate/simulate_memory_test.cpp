// Memory and copies in the simulator: against cases by hand and the planner's formula.
// SPDX-License-Identifier: Apache-2.0
#include "simulate/simulated.h"

#include "trireme/schedule/named.h"
#include "trireme/simulate/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::simulate {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Pair;

TEST(SimulateMemory, InFlightMicroBatchesShowInThePeak) {
  // A tape has 1000 bytes, x[0] and all else none: the peak counts tapes.
  constexpr int kStages = 5;
  const chain::Chain chain = chain_of(0, std::vector<Costs>(kStages, {1, 1, 0, 1000}));
  for (const int m : {1, 3, 5, 9}) {
    const Simulation result = run(one_layer_each(kStages, schedule::one_f_one_b({kStages, m})),
                                  chain, free_platform(kStages));
    for (int k = 0; k < kStages; ++k)
      EXPECT_EQ(result.ranks[static_cast<std::size_t>(k)].peak.size,
                Bytes(1000 * std::min(kStages - k, m)));
    const Simulation all =
        run(one_layer_each(kStages, schedule::gpipe({kStages, m})), chain, free_platform(kStages));
    EXPECT_EQ(all.ranks[2].peak.size, Bytes(1000 * m));
  }
}

TEST(SimulateMemory, PeakSaysWhereAndWhatIsThere) {
  // x[0] = 1, x[1] = 10, tapes 100 and 5000; backward of 1 takes 7 more, its tape two in flight.
  const chain::Chain chain = chain_of(1, {{1, 1, 10, 100, 0, 0, 7}, {1, 1, 20, 5000, 0, 0, 300}});
  chain::Platform platform = free_platform(2);
  platform.channel_buffers = 2;

  const Simulation result = simulate(one_layer_each(2, schedule::one_f_one_b({2, 2})),
                                     {&chain, &platform, {Bytes(1'000'000), Bytes(2'000'000)}});

  const Peak& first = result.ranks[0].peak;
  EXPECT_EQ(first.size, Bytes(1'000'000 + 40 + 2 * 101 + 10 + 7));
  EXPECT_EQ(to_text(first.action.value()), "0:backward 1");
  EXPECT_DOUBLE_EQ(first.time.count(), 3);
  EXPECT_THAT(
      first.contents,
      ElementsAre(Pair("static", Bytes(1'000'000)), Pair("tape 1 of 2 micro-batches", Bytes(200)),
                  Pair("channel", Bytes(40)), Pair("gradient of x[1] of micro-batch 0", Bytes(10)),
                  Pair("while 0:backward 1 runs", Bytes(7)),
                  Pair("x[0] of 2 micro-batches", Bytes(2))));
  const Peak& second = result.ranks[1].peak;
  EXPECT_EQ(second.size, Bytes(2'000'000 + 40 + 10 + 5000 + 20 + 300));
  EXPECT_THAT(second.contents, Contains(Pair("while 0:backward 2 runs", Bytes(300))));
}

TEST(SimulateMemory, CurveByHand) {
  const chain::Chain chain = chain_of(1, {{2, 3, 10, 100, 0, 5, 7}});
  const Simulation result = run(one_layer_each(1, schedule::one_f_one_b({1, 1})), chain,
                                free_platform(1), Detail::kTimeline);

  EXPECT_THAT(result.ranks[0].curve,
              ElementsAre(MemoryPoint{Seconds(0), Bytes(0)}, MemoryPoint{Seconds(0), Bytes(1)},
                          MemoryPoint{Seconds(0), Bytes(106)},  // tape and its transient
                          MemoryPoint{Seconds(2), Bytes(101)}, MemoryPoint{Seconds(2), Bytes(111)},
                          MemoryPoint{Seconds(2), Bytes(118)},  // gradient of the loss, transient
                          MemoryPoint{Seconds(5), Bytes(0)}));
}

TEST(SimulateMemory, SummaryHasNoTimeline) {
  const Simulation result =
      run(one_layer_each(2, schedule::one_f_one_b({2, 2})), uneven(), free_platform(2));
  EXPECT_TRUE(result.events.empty());
  EXPECT_TRUE(result.ranks[0].curve.empty());
}

TEST(SimulateCopies, HaveLanesOfTheirOwn) {
  const chain::Chain chain = chain_of(10, {{1, 1, 10, 40}, {8, 1, 10, 10}});
  chain::Platform platform = free_platform(2);
  platform.ranks[0].out = BytesPerSecond(20);
  platform.ranks[0].in = BytesPerSecond(40);
  program::Lowering lowering{
      {stage(1, 1, "forward_tape 1, offload_tape 1", "prefetch_tape 1, backward 1"),
       program::keep_all(2, 2)},
      schedule::one_f_one_b({2, 1})};

  const Simulation result = run(program::lower(lowering), chain, platform, Detail::kTimeline);

  EXPECT_EQ(timeline(result, 0, Lane::kOut), "F0 1-3");
  EXPECT_EQ(timeline(result, 0, Lane::kIn), "F0 3-4");
  EXPECT_EQ(timeline(result, 0), "F0 0-1, B0 10-11");
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_out.count(), 2);
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_in.count(), 1);
  EXPECT_EQ(result.ranks[0].moved, Bytes(40));
  EXPECT_EQ(result.ranks[0].offloaded.all(), Bytes(40));
  EXPECT_EQ(result.ranks[0].peak.size, Bytes(60));
  EXPECT_EQ(result.ranks[0].wait_for_copies, Seconds(0));
}

TEST(SimulateCopies, PeakListsWhatIsLeaving) {
  // x[0] leaves for nine seconds while the tape of 2 is made.
  const chain::Chain chain = chain_of(9, {{1, 1, 10, 10}, {1, 1, 0, 500}});
  chain::Platform platform = free_platform(1);
  platform.ranks[0].out = BytesPerSecond(1);
  platform.ranks[0].in = BytesPerSecond(1);
  program::Lowering lowering{{stage(1, 2, "forward_keep 1, offload 0, forward_tape 2",
                                    "backward 2, prefetch 0, forward_tape 1, backward 1")},
                             schedule::one_f_one_b({1, 1})};

  const Simulation result = run(program::lower(lowering), chain, platform);

  EXPECT_THAT(result.ranks[0].peak.contents,
              ElementsAre(Pair("while 0:forward_tape 2 runs", Bytes(500)),
                          Pair("x[1] of micro-batch 0", Bytes(10)),
                          Pair("x[0] of micro-batch 0, being offloaded", Bytes(9))));
  EXPECT_DOUBLE_EQ(result.ranks[0].wait_for_copies.count(), (10 - 3) + 9);
}

TEST(SimulateCopies, RoomIsWaitedForWithinTheBudget) {
  const chain::Chain chain = chain_of(10, {{1, 1, 10, 10}, {1, 1, 10, 10}});
  const auto copying = stage(1, 2, "forward_keep 1, offload 0, forward_tape 2",
                             "backward 2, prefetch 0, forward_tape 1, backward 1");
  chain::Platform platform = free_platform(1);
  platform.ranks[0].out = BytesPerSecond(2);
  platform.ranks[0].in = BytesPerSecond(10);
  platform.ranks[0].memory = Bytes(30 + 1000);
  const Program program = program::lower({{copying}, schedule::one_f_one_b({1, 1})});

  const Simulation result = simulate(program, {&chain, &platform, {Bytes(1000)}});

  // As ReplayCopies.WaitForRoomOnlyUnderABudget has it, with 1000 bytes of parameters in addition.
  EXPECT_DOUBLE_EQ(result.step.count(), 10);
  EXPECT_EQ(result.ranks[0].peak.size, Bytes(1030));
}

class PipelineMemory : public testing::TestWithParam<unsigned> {};

// Peak of a stage <= (in flight - 1) x kept + the replay's peak of one micro-batch.
TEST_P(PipelineMemory, StaysWithinTheFormulaOfThePlanner) {
  Dice dice(GetParam());
  const int stages = dice.roll(1, 4);
  const int layers = dice.roll(stages, stages + 6);
  const chain::Chain chain = random_chain(dice, layers);
  program::Lowering lowering;
  lowering.stages = random_stages(dice, chain, stages, false);
  const int micro_batches = dice.roll(1, 6);
  lowering.order = schedule::one_f_one_b({stages, micro_batches});

  const Simulation result = run(program::lower(lowering), chain, free_platform(stages));

  for (int k = 0; k < stages; ++k) {
    const Replay alone = replay(chain, lowering.stages[static_cast<std::size_t>(k)]);
    const int in_flight = std::min(stages - k, micro_batches);
    EXPECT_LE(result.ranks[static_cast<std::size_t>(k)].peak.size,
              alone.kept * (in_flight - 1) + alone.peak);
    EXPECT_GE(result.ranks[static_cast<std::size_t>(k)].peak.size, alone.kept * in_flight);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PipelineMemory, testing::Range(0U, 100U));

}  // namespace
}  // namespace trireme::simulate
