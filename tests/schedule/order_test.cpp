// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/order.h"

#include "trireme/core/error.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace trireme::schedule {
namespace {

using Kind = Pass::Kind;

std::string refusal(const Order& order, const Placement& placement) {
  try {
    require_sound(order, placement);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Order order_of(const std::vector<std::string>& ranks) {
  Order order;
  for (const std::string& rank : ranks) order.push_back(parse_passes(rank, 1000));
  return order;
}

TEST(Placements, GoRoundAndUpAndDown) {
  EXPECT_EQ(one_each(3), (Placement{0, 1, 2}));
  EXPECT_EQ(round_robin(3, 2), (Placement{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(v_shaped(3, 2), (Placement{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(v_shaped(2, 4), (Placement{0, 1, 1, 0, 0, 1, 1, 0}));
  EXPECT_FALSE(shares_ranks(one_each(3)));
  EXPECT_TRUE(shares_ranks(v_shaped(3, 2)));
}

TEST(OrderText, CountsEqualPassesInARow) {
  const std::vector<Pass> passes{{Kind::kForward, 0},         {Kind::kForward, 0},
                                 {Kind::kForward, 12},        {Kind::kBackward, 12},
                                 {Kind::kBackwardInput, 0},   {Kind::kBackwardInput, 0},
                                 {Kind::kBackwardWeights, 0}, {Kind::kBackwardWeights, 0}};
  EXPECT_EQ(to_text(passes), "F0*2 F12 B12 I0*2 W0*2");
  EXPECT_EQ(parse_passes(to_text(passes), 8), passes);
  EXPECT_EQ(parse_passes("", 8), std::vector<Pass>());
}

TEST(OrderText, CountsRepeatedGroups) {
  std::vector<Pass> passes(3, {Kind::kForward, 0});
  for (int i = 0; i < 97; ++i) {
    passes.insert(passes.end(), 2, {Kind::kForward, 1});
    passes.push_back({Kind::kBackward, 0});
  }
  passes.insert(passes.end(), 3, {Kind::kBackward, 0});
  EXPECT_EQ(to_text(passes), "F0*3 (F1*2 B0)*97 B0*3");
  EXPECT_EQ(parse_passes(to_text(passes), 1000), passes);
}

TEST(OrderText, OfAnyPassesReadsBack) {
  std::mt19937 random(5);
  for (int run = 0; run < 300; ++run) {
    std::vector<Pass> passes(random() % 60);
    for (Pass& pass : passes)
      pass = {static_cast<Kind>(random() % 4), static_cast<int>(random() % 2)};
    EXPECT_EQ(parse_passes(to_text(passes), 60), passes) << to_text(passes);
  }
}

TEST(OrderText, SaysWhatAPassIs) {
  for (const char* const bad :
       {"F", "X0", "F0*", "F0*0", "F-1", "F0*9", "F0*2*2", "F0x", "f0", "(F0", "()", "()*2",
        "(F0)*", "(F0)x", "((F0)*2)*2", "(F0*5)*2", "*2", "F0)"})
    EXPECT_THROW(parse_passes(bad, 8), InputError) << bad;
  EXPECT_THROW(parse_passes("F0*5 F0*4", 8), InputError);
}

TEST(Orders, NumberMicroBatchesByChunkAndKind) {
  EXPECT_EQ(micro_batches_of(parse_passes("F0 F1 F0 I1 W1 B0 F1 B1 B0", 100)),
            (std::vector<int>{0, 0, 1, 0, 0, 0, 1, 1, 1}));
  const Order order = order_of({"F0*3 I0 W0 F0 I0*2 W0*2 B0"});
  EXPECT_EQ(in_flight(order, {0}), (std::vector<int>{3}));
  EXPECT_EQ(micro_batches_of(order, {0}), 4);
  EXPECT_EQ(refusal(order, {0}), "");
}

TEST(Orders, AreRefusedWherePassesAreMissingOrOutOfOrder) {
  EXPECT_EQ(refusal(order_of({"F0 F1 B1 B0"}), {0, 0}), "");
  EXPECT_EQ(refusal(order_of({"F0 F1"}), {0, 0}), "");  // validation
  EXPECT_NE(refusal(order_of({"F0 F1 B1 B0"}), {0, 1}), "");
  EXPECT_NE(refusal(order_of({"F0 B0 F1 B1"}), {0, 1}).find("for 1 ranks"), std::string::npos);
  EXPECT_NE(refusal(order_of({"F0 B0", "F0 B0"}), {0, 1}).find("which is on rank 0"),
            std::string::npos);
  EXPECT_NE(refusal(order_of({"B0 F0"}), {0}).find("before its forward"), std::string::npos);
  EXPECT_NE(refusal(order_of({"F0 W0 I0"}), {0}).find("before its I0"), std::string::npos);
  EXPECT_NE(refusal(order_of({"F0*2 I0 B0 W0"}), {0}).find("summed in the order"),
            std::string::npos);
  EXPECT_NE(refusal(order_of({"F0 I0"}), {0}).find("gradients of weights 0 times"),
            std::string::npos);
  EXPECT_NE(refusal(order_of({"F0*2 F1 B1 B0*2"}), {0, 0}).find("chunk 1 runs 1"),
            std::string::npos);
  EXPECT_NE(refusal(order_of({"F0 B0", "F1"}), {0, 1}).find("chunk 1"), std::string::npos);
  EXPECT_NE(refusal(order_of({"F2 B2"}), {0, 0}).find("must be 0 to 1"), std::string::npos);
}

}  // namespace
}  // namespace trireme::schedule
