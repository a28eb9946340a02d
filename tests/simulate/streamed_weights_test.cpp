// Streamed weights in time and bytes, by hand.
// SPDX-License-Identifier: Apache-2.0
#include "simulate/simulated.h"

#include "trireme/schedule/named.h"
#include "trireme/simulate/simulate.h"

#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

/// Four equal layers on one rank, forward 1 s and backward 2 s, whose 10 bytes of weights are
/// streamed at `rate`.
Simulation streamed(double rate, int micro_batches, int at_once = 2) {
  const chain::Chain chain = chain_of(1, std::vector<Costs>(4, {1, 2, 1, 1}));
  chain::Platform platform = free_platform(1);
  platform.ranks[0].host = Bytes(40);
  platform.ranks[0].in = BytesPerSecond(rate);
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {Bytes(10) * at_once}};
  const chain::OffloadWeights ten{.weights = Bytes(10), .gradients = {}};
  setting.weights_at_once = at_once;
  setting.streamed = {{}, ten, ten, ten, ten};
  const Program program = with_weights(program::lower({
                                           .stages = {program::keep_all(1, 4)},
                                           .order = schedule::one_f_one_b({1, micro_batches}),
                                       }),
                                       setting);
  EXPECT_FALSE(validate(program, setting));
  Simulation result = simulate(program, setting, Detail::kTimeline);
  expect_all_time_is_told(result);
  return result;
}

// Layers 1 and 2 are on the device from the step before, 3 and 4 are copied in while they run, and
// 4 and 3 are there when the order turns; then 2 and 1 are copied in.
TEST(SimulateStreams, StreamedWeightsComeWhileTheLayerBeforeIsUsed) {
  const Simulation slow = streamed(2, 1);
  ASSERT_FALSE(slow.fault);
  EXPECT_EQ(timeline(slow, 0),
            "F0 0-1, F0 1-2, F0 6-7, F0 11-12, B0 12-14, B0 14-16, B0 19-21, B0 24-26");
  EXPECT_DOUBLE_EQ(slow.step.count(), 26);
  EXPECT_DOUBLE_EQ(slow.ranks[0].busy.count(), 12);
  EXPECT_DOUBLE_EQ(slow.ranks[0].wait_for_copies.count(), 14);
  EXPECT_DOUBLE_EQ(slow.ranks[0].copies_in.count(), 4 * 5);
  EXPECT_EQ(slow.ranks[0].weights_moved, Bytes(4 * 10));
  EXPECT_DOUBLE_EQ(slow.ranks[0].copies_out.count(), 0);
  EXPECT_EQ(slow.ranks[0].offloaded.all(), Bytes(40));
  // A copy of a second is as long as a forward: the pipeline of copies and layers never waits.
  EXPECT_DOUBLE_EQ(streamed(10, 1).step.count(), 12);
  EXPECT_DOUBLE_EQ(streamed(10, 3).step.count(), 36);
}

// A third layer is on the device from the step before, and copies that begin earlier end earlier.
TEST(SimulateStreams, MoreStreamedWeightsAtOnceComeEarlier) {
  const Simulation three = streamed(2, 1, 3);
  ASSERT_FALSE(three.fault);
  EXPECT_EQ(timeline(three, 0),
            "F0 0-1, F0 1-2, F0 2-3, F0 6-7, B0 7-9, B0 9-11, B0 11-13, B0 14-16");
  EXPECT_EQ(three.ranks[0].peak.size, Bytes(30 + 4 + 1 + 1));
  EXPECT_DOUBLE_EQ(streamed(2, 1, 4).step.count(), 12);
}

// A micro-batch takes at least the time of the copies between two turns.
TEST(SimulateStreams, ManyMicroBatchesOfStreamedWeightsTakeTheirCopies) {
  for (const int micro_batches : {1, 2, 5, 40}) {
    const Simulation result = streamed(0.1, micro_batches);
    const double copies = micro_batches * 4 * 100.0;
    EXPECT_DOUBLE_EQ(result.ranks[0].copies_in.count(), copies);
    EXPECT_GE(result.step.count(), copies);
    EXPECT_LE(result.step.count(), copies + micro_batches * 12);
  }
}

/// Four equal layers on one rank, forward 1 s, backward 2 s, update 1 s, whose 10 bytes of weights
/// and 10 of gradients are streamed at 10 B/s.
struct TrainedStreams {
  explicit TrainedStreams(int count, Bytes offloaded = Bytes(0)) : micro_batches(count) {
    for (chain::LayerCost& layer : chain.layers) {
      layer.update = Seconds(1);
      layer.optimizer = Bytes(10);
    }
    platform.ranks[0].host = Bytes(120);
    platform.ranks[0].in = platform.ranks[0].out = BytesPerSecond(10);
    const chain::OffloadWeights both{
        .weights = Bytes(10), .gradients = Bytes(10), .is_trained = true};
    setting.streamed = {{}, both, both, both, both};
    setting.offloaded_optimizer = {offloaded};
  }

  Program program() const {
    return with_weights(program::lower({.stages = {program::keep_all(1, 4)},
                                        .order = schedule::one_f_one_b({1, micro_batches}),
                                        .end = program::StepEnd::kReduceClipStep}),
                        setting);
  }
  Simulation run() const {
    EXPECT_FALSE(validate(program(), setting));
    Simulation result = simulate(program(), setting, Detail::kTimeline);
    expect_all_time_is_told(result);
    return result;
  }

  int micro_batches;
  chain::Chain chain = chain_of(1, std::vector<Costs>(4, {1, 2, 1, 1}));
  chain::Platform platform = free_platform(1);
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {Bytes(50)}};
};

// By hand: F1..F4 and B4..B1 never wait; the update of layer 3 waits for its weights and gradients
// until 15 s, that of layer 4 until 17 s; the step ends with the last copy out. (Timelines show an
// update, which is no backward, as F.)
TEST(SimulateStreams, StreamedWeightsThatAreTrainedGoWithTheirGradients) {
  const Simulation result = TrainedStreams(1).run();
  ASSERT_FALSE(result.fault);
  EXPECT_EQ(timeline(result, 0),
            "F0 0-1, F0 1-2, F0 2-3, F0 3-4, B0 4-6, B0 6-8, B0 8-10, B0 10-12, F0 12-13, "
            "F0 13-14, F0 15-16, F0 17-18");
  EXPECT_DOUBLE_EQ(result.step.count(), 19);
  EXPECT_DOUBLE_EQ(result.ranks[0].busy.count(), 4 * (1 + 2 + 1));
  EXPECT_DOUBLE_EQ(result.ranks[0].wait_for_copies.count(), 3);
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_in.count(), 3 + 1 + 2 + 2 + 1 + 1);
  EXPECT_EQ(result.ranks[0].weights_moved, Bytes(100));
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_out.count(), 2 + 4);
  EXPECT_EQ(result.ranks[0].offloaded.all(), Bytes(80));
  // While B3 runs: 20 bytes each of layers 3 and 2, 10 of gradients of layer 4 being copied out,
  // three tapes, the gradient of x[3] and that of x[2].
  EXPECT_EQ(result.ranks[0].peak.size, Bytes(20 + 20 + 10 + 3 + 1 + 1));
}

// Each further micro-batch copies three layers' gradients in and out again, and those that stay
// where the order turns do not move.
TEST(SimulateStreams, GradientsOfStreamedWeightsComeBackForEveryMicroBatch) {
  const Simulation one = TrainedStreams(1).run(), two = TrainedStreams(2).run(),
                   three = TrainedStreams(3).run();
  const auto in = [](const Simulation& result) { return result.ranks[0].copies_in.count(); };
  const auto out = [](const Simulation& result) { return result.ranks[0].copies_out.count(); };
  EXPECT_DOUBLE_EQ(in(three)-in(two), 4 + 4);
  EXPECT_DOUBLE_EQ(out(three) - out(two), 4);
  EXPECT_GT(in(two), in(one));
  EXPECT_LE(three.ranks[0].peak.size, Bytes(50 + 4 * 1 + 2));
}

// Offloaded optimizer state shares the link with the weights that are updated.
TEST(SimulateStreams, UpdatesOfStreamedWeightsShareTheLinkWithTheirState) {
  const Simulation result = TrainedStreams(1, Bytes(40)).run(), none = TrainedStreams(1).run();
  ASSERT_FALSE(result.fault);
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_in.count() - none.ranks[0].copies_in.count(), 4);
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_out.count() - none.ranks[0].copies_out.count(), 4);
  EXPECT_EQ(result.ranks[0].state_moved, Bytes(40));
  EXPECT_EQ(result.ranks[0].weights_moved, none.ranks[0].weights_moved);
  EXPECT_GT(result.step, none.step);
  EXPECT_LE(result.step, none.step + Seconds(4));
}

TEST(SimulateStreams, StreamedGradientsOfReplicasComeOnceMore) {
  TrainedStreams replicas(1);
  replicas.setting.replicas = 2;
  const Simulation result = replicas.run(), one = TrainedStreams(1).run();
  // Four times gradients to be summed, four times weights and gradients for the update; without
  // replicas two layers are on the device when it begins.
  EXPECT_DOUBLE_EQ(result.ranks[0].copies_out.count() - one.ranks[0].copies_out.count(), 4);
  EXPECT_GT(result.ranks[0].copies_in, one.ranks[0].copies_in);
}

TEST(SimulateStreams, TrainedStreamsNeedAWayBack) {
  TrainedStreams streams(1);
  streams.platform.ranks[0].out = BytesPerSecond(0);
  EXPECT_EQ(simulate(streams.program(), streams.setting).fault->reason,
            "rank 0 has trained weights in the offload tier, but no copy lane back to there");
}

// Every move is needed: a program without any one of them is refused, or takes more than its
// window.
TEST(SimulateStreams, MovesOfStreamedWeightsAreAllNeeded) {
  const TrainedStreams streams(2);
  const Program whole = streams.program();
  int moves = 0;
  for (std::size_t i = 0; i < whole.ranks[0].size(); ++i) {
    const Op op = whole.ranks[0][i].op;
    if (!program::moves_weights(op) || op == Op::kWeightsRelease || op == Op::kGradientsRelease)
      continue;
    Program without = whole;
    without.ranks[0].erase(without.ranks[0].begin() + static_cast<std::ptrdiff_t>(i));
    const auto fault = validate(without, streams.setting);
    EXPECT_TRUE(fault) << to_text(whole.ranks[0][i]);
    ++moves;
  }
  EXPECT_GT(moves, 30);
}

TEST(SimulateStreams, StreamedWeightsNeedALaneAndRoom) {
  const chain::Chain chain = chain_of(1, {{1, 2, 1, 1}});
  chain::Platform platform = free_platform(1);
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
  setting.streamed = {{}, {.weights = Bytes(10), .gradients = {}}};
  const Program without = one_layer_each(1, schedule::one_f_one_b({1, 1}));
  const Program program = with_weights(without, setting);
  EXPECT_EQ(simulate(program, setting).fault->reason,
            "rank 0 has weights in the offload tier, but no copy lane from there");
  platform.ranks[0].in = BytesPerSecond(1);
  EXPECT_FALSE(simulate(program, setting).fault);
  platform.ranks[0].host = Bytes(10);
  EXPECT_FALSE(validate(program, setting));
  EXPECT_EQ(to_text(*validate(without, setting)),
            "rank 0, action 2 (0:forward_tape 1): the weights of layer 1 are not on the device");
  platform.ranks[0].host = Bytes(9);
  EXPECT_EQ(validate(program, setting)->reason, "needs 10 bytes in the offload tier, which has 9");
  setting.streamed.pop_back();
  EXPECT_EQ(simulate(program, setting).fault->reason,
            "streamed weights of 1 layers, must be of 2, layer 0 among them");
}

}  // namespace
}  // namespace trireme::simulate
