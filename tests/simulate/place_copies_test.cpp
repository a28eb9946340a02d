// Where copies are released and begun, and the bytes that a rank then holds.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/place_copies.h"

#include "trireme/chain/platform.h"
#include "trireme/program/generate.h"
#include "trireme/program/needs.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace trireme::simulate {
namespace {

using program::Op;

/// Layers of 1 s each, x of 10 B, tapes of `tape` B.
chain::Chain equal_chain(int layers, std::int64_t tape) {
  chain::Chain chain{.name = "c", .input = Bytes(10), .layers = {}};
  for (int i = 0; i < layers; ++i) {
    chain.layers.push_back({.name = "l",
                            .forward = Seconds(1),
                            .backward = Seconds(1),
                            .output = Bytes(10),
                            .tape = Bytes(tape),
                            .backward_transient = Bytes(10)});
  }
  return chain;
}

chain::Platform platform_of(Bytes memory, double rate) {
  chain::Platform platform = chain::uniform_platform(1, memory);
  platform.ranks[0].out = platform.ranks[0].in = BytesPerSecond(rate);
  platform.ranks[0].host = Bytes(1 << 20);
  return platform;
}

/// Every tape but the last is offloaded right after it was made and prefetched right before its
/// layer's successor runs backward.
program::StageProgram moves_all_tapes(int layers) {
  program::StageProgram program{1, layers, {}, {}};
  for (int i = 1; i <= layers; ++i) {
    program.forward.push_back({Op::kForwardTape, i});
    if (i > 1 && i < layers) program.forward.push_back({Op::kOffloadTape, i - 1});
  }
  for (int i = layers; i >= 1; --i) {
    program.backward.push_back({Op::kBackward, i});
    if (i > 2) program.backward.push_back({Op::kPrefetchTape, i - 2});
  }
  return program;
}

struct Case {
  chain::Chain chain;
  chain::Platform platform;
  program::Program program;

  PlacedCopies placed() const {
    const Setting setting{.chain = &chain, .platform = &platform};
    const Simulation timeline = simulate(program, setting, Detail::kTimeline);
    EXPECT_FALSE(timeline.fault) << (timeline.fault ? to_text(*timeline.fault) : "");
    return place_copies(program, setting, timeline);
  }
  Simulation simulation() const {
    return simulate(program, {.chain = &chain, .platform = &platform}, Detail::kSummary);
  }
};

Case case_of(int layers, std::int64_t tape, Bytes memory, double rate, int micro_batches = 1) {
  Case made{equal_chain(layers, tape), platform_of(memory, rate), {}};
  made.program = program::lower({.stages = {moves_all_tapes(layers)},
                                 .order = schedule::one_f_one_b({1, micro_batches}),
                                 .end = program::StepEnd::kReduceClipStep});
  return made;
}

std::ptrdiff_t count(const PlacedCopies& placed, Op op) {
  const auto& actions = placed.program.ranks[0];
  return std::count_if(actions.begin(), actions.end(),
                       [&](const program::Action& action) { return action.op == op; });
}

TEST(PlacedCopies, AreAllOfTheProgramInItsOrder) {
  for (const double rate : {1e9, 50.0, 5.0}) {
    const Case made = case_of(6, 40, Bytes(0), rate, 3);
    const auto& before = made.program.ranks[0];
    const PlacedCopies placed = made.placed();
    const auto moved = [](const std::vector<program::Action>& actions, Op op) {
      std::vector<program::ValueKey> values;
      for (const program::Action& action : actions)
        if (action.op == op) values.push_back(program::moved_value(action));
      return values;
    };
    const auto& after = placed.program.ranks[0];
    EXPECT_EQ(count(placed, Op::kReleaseTape), 3 * 4) << rate;
    EXPECT_EQ(moved(after, Op::kReleaseTape), moved(before, Op::kOffloadTape)) << rate;
    EXPECT_EQ(moved(after, Op::kCopyInTape), moved(before, Op::kPrefetchTape)) << rate;
    EXPECT_EQ(moved(after, Op::kAwaitTape), moved(before, Op::kPrefetchTape)) << rate;
    std::vector<program::Action> rest = after;
    std::erase_if(rest,
                  [](const program::Action& action) { return program::is_placed_copy(action.op); });
    EXPECT_EQ(rest, before) << rate;
  }
}

TEST(PlacedCopies, AreReleasedBeforeTheFirstActionAfterTheCopysEnd) {
  // A tape of 40 B is copied out in 0.8 s after a forward of 1 s: it is gone before the next but
  // one begins. Tape 1 is offloaded after forward 2; it is being copied while forward 3 runs.
  const PlacedCopies placed = case_of(4, 40, Bytes(0), 50).placed();
  const auto& actions = placed.program.ranks[0];
  const auto place = [&](Op op, int layer) {
    return std::find(actions.begin(), actions.end(), program::Action{op, layer, 0}) -
           actions.begin();
  };
  EXPECT_GT(place(Op::kReleaseTape, 1), place(Op::kForwardTape, 3));
  EXPECT_LT(place(Op::kReleaseTape, 1), place(Op::kForwardTape, 4));
}

TEST(PlacedCopies, RunInTheSimulatorAsTheProgramDoes) {
  const Case made = case_of(6, 40, Bytes(200), 20, 2);
  Case placed = made;
  placed.program = made.placed().program;
  EXPECT_EQ(placed.simulation().step, made.simulation().step);
  EXPECT_EQ(placed.simulation().ranks[0].peak.size, made.simulation().ranks[0].peak.size);
  const Setting setting{.chain = &placed.chain, .platform = &placed.platform};
  EXPECT_FALSE(validate(placed.program, setting));
}

TEST(PlacedCopies, WithInstantCopiesHoldWhatTheSimulatorHolds) {
  const Case made = case_of(8, 40, Bytes(0), 1e12, 2);
  EXPECT_EQ(made.placed().ranks[0].peak, made.simulation().ranks[0].peak.size);
}

TEST(PlacedCopies, KeepTheBudgetWhereverTheSimulatorDoes) {
  // Oracle: the budget itself, over random sizes, rates and budgets that the validator accepts.
  std::mt19937 random(11);
  int looked_at = 0;
  for (int round = 0; round < 3000; ++round) {
    Case made =
        case_of(3 + static_cast<int>(random() % 6), 40, Bytes(0),
                1 + static_cast<double>(random() % 200), 1 + static_cast<int>(random() % 3));
    for (chain::LayerCost& layer : made.chain.layers) {
      layer.output = Bytes(1 + random() % 20);
      layer.tape = layer.output + Bytes(random() % 60);
      layer.backward_transient = Bytes(20 + random() % 30);
      layer.forward = Seconds(0.1 * static_cast<double>(1 + random() % 20));
      layer.backward = Seconds(0.1 * static_cast<double>(1 + random() % 20));
    }
    made.platform.ranks[0].memory = Bytes(100 + random() % 200);
    if (validate(made.program, {.chain = &made.chain, .platform = &made.platform})) continue;
    ++looked_at;
    const PlacedCopies placed = made.placed();
    ASSERT_LE(placed.ranks[0].peak, made.platform.ranks[0].memory) << round;
    ASSERT_EQ(count(placed, Op::kCopyInTape), count(placed, Op::kReleaseTape));
  }
  EXPECT_GT(looked_at, 1000);
}

TEST(PlacedCopies, CountTheOffloadTierUntilACopyInWasAwaited) {
  // Tapes 1..4 of 40 B are out together at the turn.
  EXPECT_EQ(case_of(6, 40, Bytes(0), 1e12).placed().ranks[0].offload_peak, Bytes(160));
}

TEST(PlacedCopies, AreEmptyWithoutCopies) {
  Case made = case_of(3, 40, Bytes(0), 1);
  made.program = program::lower({.stages = {program::keep_all(1, 3)},
                                 .order = schedule::one_f_one_b({1, 1}),
                                 .end = program::StepEnd::kReduceClipStep});
  const PlacedCopies placed = made.placed();
  EXPECT_EQ(placed.program, made.program);
  EXPECT_EQ(placed.ranks[0].peak, made.simulation().ranks[0].peak.size);
  EXPECT_FALSE(has_copies(made.program.ranks[0]));
}

}  // namespace
}  // namespace trireme::simulate
