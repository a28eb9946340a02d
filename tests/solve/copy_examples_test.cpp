// Plans with copies that can be checked by eye.
//
// SPDX-License-Identifier: Apache-2.0
#include "solve/copy_problems.h"

#include "trireme/solve/solve.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace trireme::solve {
namespace {

// Five layers of one second each way, tapes of 10 bytes, all else of no bytes.
chain::Chain five_equal() {
  chain::Chain chain{.name = "equal", .input = Bytes(0), .layers = {}};
  for (int i = 0; i < 5; ++i) chain.layers.push_back(layer(1, 1, 0, 10));
  return chain;
}

TEST(Offload, MovesTheFirstTapeOutAndBackInTime) {
  using program::Op;
  const chain::Chain chain = five_equal();
  // 40 bytes: tape 1 must be offloaded while tapes 2..5 are held. At 10 bytes per second it is
  // copied out during the forward of 3 and back during the backward of 4, when tape 5 is gone.
  const auto solution = std::get<Solution>(solve("offload", linked(chain, 40, 10, 10)));
  EXPECT_EQ(solution.time, Seconds(10));
  EXPECT_EQ(solution.peak, Bytes(40));
  const std::vector<program::Action> forward{{Op::kForwardTape, 1}, {Op::kForwardTape, 2},
                                             {Op::kOffloadTape, 1}, {Op::kForwardTape, 3},
                                             {Op::kForwardTape, 4}, {Op::kForwardTape, 5}};
  const std::vector<program::Action> backward{{Op::kBackward, 5}, {Op::kPrefetchTape, 1},
                                              {Op::kBackward, 4}, {Op::kBackward, 3},
                                              {Op::kBackward, 2}, {Op::kBackward, 1}};
  EXPECT_EQ(solution.program.forward, forward);
  EXPECT_EQ(solution.program.backward, backward);
}

TEST(Offload, WaitsWhereTheLinkIsTooSlow) {
  // Tape 1 begins to leave after 2 s and is gone after 12 s; layer 5, which could begin after 4 s,
  // waits for that. Tape 1 begins to return after the backward of 5, at 14 s, and is back at 24 s:
  // the backwards of 2, whose input it holds, and of 1 remain.
  const auto solution = std::get<Solution>(solve("offload", linked(five_equal(), 40, 1, 1)));
  EXPECT_EQ(solution.time, Seconds(26));
}

TEST(Capuchin, SwapsWhatIsFreeLongestIfThatHides) {
  const auto solution = std::get<Solution>(solve("capuchin", linked(five_equal(), 40, 10, 10)));
  EXPECT_EQ(solution.time, Seconds(10));
  EXPECT_EQ(solution.moved, Bytes(10));
  EXPECT_EQ(solution.program.forward[2], (program::Action{program::Op::kOffloadTape, 1}));
}

TEST(Capuchin, RecomputesWhereASwapWouldTakeLonger) {
  const auto solution = std::get<Solution>(solve("capuchin", linked(five_equal(), 40, 1, 1)));
  EXPECT_EQ(solution.time, Seconds(11));
  EXPECT_EQ(solution.moved, Bytes(0));
  EXPECT_EQ(solution.recompute, Seconds(1));
}

TEST(Capuchin, RecomputesTheLayerThatSavesMostPerSecond) {
  chain::Chain chain = five_equal();
  chain.layers[2].forward = Seconds(0.25);
  chain.layers[1].tape = Bytes(12);
  const auto solution = std::get<Solution>(solve("capuchin", whole(chain, 42)));
  EXPECT_EQ(solution.recompute, Seconds(0.25));
}

TEST(Capuchin, SaysWhatItWouldNeed) {
  chain::Chain chain = five_equal();
  chain.layers.resize(2);
  // The second layer's tape is freed when the first is recomputed.
  const auto none = std::get<plan::Infeasible>(solve("capuchin", whole(chain, 9)));
  EXPECT_EQ(none.least_budget, Bytes(10));
}

}  // namespace
}  // namespace trireme::solve
