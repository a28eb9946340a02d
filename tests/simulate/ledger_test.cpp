// The memory model, operation by operation, on a chain whose sizes are powers of ten.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/ledger.h"

#include "simulate/chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

using program::Action;
using program::Op;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

/// x = 1, 10, 100, 1000; tapes 20'000, 300'000, 4'000'000; transients by the layer's number.
chain::Chain powers() {
  return chain_of(1, {{1, 1, 10, 20'000, 5, 50, 500},
                      {1, 1, 100, 300'000, 6, 60, 600},
                      {1, 1, 1000, 4'000'000, 7, 70, 700}});
}

using DuringAfter = std::pair<std::int64_t, std::int64_t>;

DuringAfter both(std::int64_t during, std::int64_t after) {
  return {during, after};
}

class LedgerOfPowers : public testing::Test {
 protected:
  /// Applies "2:forward 1" and the like; they must be legal.
  void given(std::initializer_list<const char*> texts) {
    for (const char* text : texts) {
      const auto outcome = ledger_.apply(program::parse_action(text));
      ASSERT_EQ(outcome.fault, std::nullopt) << text;
    }
  }
  /// Bytes during and after.
  DuringAfter effect(const char* text) {
    const auto outcome = ledger_.apply(program::parse_action(text));
    EXPECT_EQ(outcome.fault, std::nullopt) << text;
    EXPECT_EQ(ledger_.held(), outcome.effect.after);
    return {outcome.effect.during.count(), outcome.effect.after.count()};
  }
  std::string fault(const char* text) {
    const Bytes held = ledger_.held();
    const auto values = ledger_.values();
    const auto outcome = ledger_.apply(program::parse_action(text));
    EXPECT_EQ(ledger_.held(), held) << "a refused action changes nothing";
    EXPECT_EQ(ledger_.values(), values) << "a refused action changes nothing";
    return outcome.fault.value_or("allowed");
  }
  /// What is on the device, except targets.
  std::vector<std::pair<std::string, Bytes>> held() const {
    std::vector<std::pair<std::string, Bytes>> held;
    for (const Value& value : ledger_.values()) {
      if (!value.offloaded && value.kind != Value::Kind::kTarget)
        held.emplace_back(to_text(value), value.size);
    }
    return held;
  }

  chain::Chain chain_ = powers();
  Ledger ledger_{chain_, {}};
};

TEST_F(LedgerOfPowers, ForwardDropsAStandaloneInput) {
  given({"0:load_input 0"});
  EXPECT_EQ(effect("0:forward 1"), both(1 + 10 + 5, 10));
  EXPECT_EQ(fault("0:forward_keep 1"), "x[0] is not held");
}

TEST_F(LedgerOfPowers, ForwardKeepKeepsIt) {
  given({"0:load_input 0"});
  EXPECT_EQ(effect("0:forward_keep 1"), both(1 + 10 + 5, 11));
}

TEST_F(LedgerOfPowers, ForwardLeavesAnInputInsideATape) {
  given({"0:load_input 0", "0:forward_tape 1"});
  EXPECT_EQ(effect("0:forward 2"), both(1 + 20'000 + 100 + 6, 1 + 20'000 + 100));
}

TEST_F(LedgerOfPowers, TapeHoldsItsOutputAndNotItsInput) {
  given({"0:load_input 0"});
  EXPECT_EQ(effect("0:forward_tape 1"), both(1 + 20'000 + 50, 20'001));
  EXPECT_EQ(effect("0:forward_tape 2"), both(20'001 + 300'000 + 60, 320'001));
}

TEST_F(LedgerOfPowers, BackwardGivesTheGradientOfItsInputForTapeGradientAndInput) {
  given({"0:load_input 0", "0:forward_tape 1", "0:forward_keep 2"});
  given({"0:load_target 3", "0:forward_tape 3", "0:read_loss 3"});
  // 20'001 of the first layer, x[2] by itself, tape 3, gradient of x[3].
  EXPECT_EQ(effect("0:backward 3"), both(20'001 + 100 + 4'000'000 + 1000 + 700, 20'001 + 100));
  EXPECT_THAT(held(), ElementsAre(Pair("x[0] of micro-batch 0", Bytes(1)),
                                  Pair("tape 1 of micro-batch 0", Bytes(20'000)),
                                  Pair("gradient of x[2] of micro-batch 0", Bytes(100))));
}

TEST_F(LedgerOfPowers, BackwardLeavesAnInputInsideATape) {
  given({"0:load_input 0", "0:forward_tape 1", "0:forward_tape 2", "0:receive_gradient 2"});
  EXPECT_EQ(effect("0:backward 2"), both(320'001 + 100 + 600, 20'001 + 10));
  EXPECT_EQ(effect("0:backward 1"), both(20'011 + 500, 0));
  EXPECT_TRUE(ledger_.empty()) << "x[0] needs no gradient";
}

TEST_F(LedgerOfPowers, InputOfALiveTapeMayLeaveAndComeBack) {
  given({"0:load_input 0", "0:forward_keep 1", "0:forward_tape 2"});
  EXPECT_EQ(effect("0:drop 1"), both(300'011, 300'001));
  given({"0:receive_gradient 2"});
  EXPECT_EQ(fault("0:backward 2"), "x[1] is not held");
  given({"0:forward_keep 1"});
  EXPECT_EQ(effect("0:backward 2"), both(300'001 + 100 + 10 + 600, 1 + 10));
}

TEST_F(LedgerOfPowers, PartOfATapeMayStayWhereItIsOffloaded) {
  chain_.layers[1].tape_stays = Bytes(7);
  given({"0:load_input 0", "0:forward_keep 1", "0:forward_tape 2"});
  EXPECT_EQ(effect("0:offload_tape 2"), both(300'011, 11 + 7));
  EXPECT_EQ(ledger_.offloaded(), Bytes(300'000 - 7));
  EXPECT_THAT(held(), ElementsAre(Pair("x[0] of micro-batch 0", Bytes(1)),
                                  Pair("x[1] of micro-batch 0", Bytes(10)),
                                  Pair("what stays of tape 2 of micro-batch 0", Bytes(7))));
  EXPECT_EQ(effect("0:prefetch_tape 2"), both(300'011, 300'011));
  EXPECT_EQ(ledger_.offloaded(), Bytes(0));
}

TEST_F(LedgerOfPowers, LossGivesWayToItsGradient) {
  given({"0:receive_input 2", "0:load_target 3", "0:forward_keep 3"});
  EXPECT_EQ(effect("0:read_loss 3"), both(1100, 1100));
  EXPECT_EQ(fault("0:read_loss 3"), "x[3] is not held");
  EXPECT_EQ(effect("0:forward_tape 3"), both(1100 + 4'000'000 + 70, 4'001'100))
      << "the target is still there";
}

TEST_F(LedgerOfPowers, LossInsideATapeStaysBesideItsGradient) {
  given({"0:receive_input 2", "0:load_target 3", "0:forward_tape 3"});
  EXPECT_EQ(effect("0:read_loss 3"), both(4'001'100, 4'001'100));
  EXPECT_EQ(fault("0:read_loss 3"), "the loss was read already");
}

TEST_F(LedgerOfPowers, EvaluationConsumesTheLoss) {
  Ledger ledger(chain_, {3, 3, false});
  for (const char* text : {"0:receive_input 2", "0:load_target 3", "0:forward 3", "0:read_loss 3"})
    EXPECT_EQ(ledger.apply(program::parse_action(text)).fault, std::nullopt) << text;
  EXPECT_TRUE(ledger.empty());
}

TEST_F(LedgerOfPowers, SentOutputIsGivenAwayUnlessATapeHoldsIt) {
  given({"0:load_input 0", "0:forward 1"});
  EXPECT_EQ(effect("0:send_output 1"), both(10, 0));
  given({"1:load_input 0", "1:forward_tape 1"});
  EXPECT_EQ(effect("1:send_output 1"), both(20'001, 20'001));
}

TEST_F(LedgerOfPowers, CopiesMoveBytesBetweenTiers) {
  given({"0:load_input 0", "0:forward_tape 1", "0:forward_keep 2"});
  EXPECT_EQ(effect("0:offload 2"), both(20'101, 20'001));
  EXPECT_EQ(effect("0:offload_tape 1"), both(20'001, 1));
  EXPECT_EQ(ledger_.offloaded(), Bytes(20'100));
  EXPECT_EQ(effect("0:prefetch_tape 1"), both(20'001, 20'001));
  EXPECT_EQ(effect("0:prefetch 2"), both(20'101, 20'101));
  EXPECT_EQ(ledger_.offloaded(), Bytes(0));
}

TEST_F(LedgerOfPowers, NothingIsUsedWhileOffloaded) {
  given({"0:load_input 0", "0:forward_tape 1", "0:offload_tape 1", "0:offload 0"});
  EXPECT_EQ(fault("0:forward 2"), "x[1] is not held: tape 1 is offloaded");
  EXPECT_EQ(fault("0:forward 1"), "x[0] is offloaded");
  EXPECT_EQ(fault("0:offload 0"), "x[0] is offloaded");
  EXPECT_EQ(fault("0:offload_tape 1"), "tape 1 is offloaded already");
  EXPECT_EQ(fault("0:drop 0"), "x[0] is offloaded");
  given({"0:receive_gradient 1"});
  EXPECT_EQ(fault("0:backward 1"), "tape 1 is offloaded");
}

TEST_F(LedgerOfPowers, NothingIsHeldTwice) {
  given({"0:load_input 0", "0:forward_keep 1"});
  EXPECT_EQ(fault("0:load_input 0"), "x[0] is held already");
  EXPECT_EQ(fault("0:forward_keep 1"), "x[1] is held already");
  EXPECT_EQ(fault("0:forward_tape 1"), "x[1] is held already");
  given({"0:drop 1", "0:forward_tape 1"});
  EXPECT_EQ(fault("0:forward_tape 1"), "x[1] is held already, inside tape 1");
  EXPECT_EQ(fault("0:forward 1"), "x[1] is held already, inside tape 1");
  EXPECT_EQ(fault("0:drop 1"), "x[1] is part of tape 1");
  EXPECT_EQ(fault("0:offload 1"), "x[1] is part of tape 1: offload_tape moves it");
  given({"0:offload_tape 1", "0:forward_keep 1"});
  EXPECT_EQ(fault("0:prefetch_tape 1"),
            "x[1] is held by itself: with tape 1 it would be held twice");
  given({"0:offload 1"});
  EXPECT_EQ(fault("0:forward_keep 1"), "x[1] is offloaded: prefetch it instead");
  given({"0:prefetch_tape 1"});
  EXPECT_EQ(fault("0:prefetch 1"), "x[1] is held already, inside tape 1");
  given({"0:receive_gradient 1"});
  EXPECT_EQ(fault("0:receive_gradient 1"), "the gradient of x[1] is held already");
}

class LedgerWithRetapes : public LedgerOfPowers {
 protected:
  LedgerWithRetapes() {
    chain_.layers[1].retape = chain::Retape{.time = Seconds(0.5),
                                            .tape = Bytes(200'000),
                                            .tape_transient = Bytes(61),
                                            .backward_transient = Bytes(601)};
  }
};

TEST_F(LedgerWithRetapes, ARetapeLeavesATapeWithoutItsOutput) {
  given({"0:load_input 0", "0:forward_keep 1", "0:forward_keep 2", "0:drop 2"});
  EXPECT_EQ(effect("0:retape 2"), both(200'011 + 61, 200'011));
  EXPECT_EQ(fault("0:send_output 2"), "x[2] is not held: tape 2 was recomputed without it");
  EXPECT_EQ(fault("0:offload_tape 2"),
            "tape 2 was recomputed for its backward and cannot be offloaded");
  EXPECT_EQ(fault("0:forward_keep 2"), "tape 2 is held already");
  EXPECT_EQ(fault("0:retape 2"), "tape 2 is held already");
  EXPECT_THAT(held(), ElementsAre(Pair("x[0] of micro-batch 0", Bytes(1)),
                                  Pair("x[1] of micro-batch 0", Bytes(10)),
                                  Pair("tape 2 of micro-batch 0", Bytes(200'000))));
  given({"0:receive_gradient 2"});
  // Tape, gradient and x[1] are freed, the gradient of x[1] is added.
  EXPECT_EQ(effect("0:backward 2"), both(200'111 + 601, 11));
}

TEST_F(LedgerWithRetapes, ALayerWithoutOneMakesItsWholeTapeAgain) {
  given({"0:load_input 0"});
  EXPECT_EQ(effect("0:retape 1"), both(20'001 + 50, 20'001));
  given({"0:receive_gradient 1"});
  EXPECT_EQ(effect("0:backward 1"), both(20'011 + 500, 0));
}

TEST_F(LedgerOfPowers, NothingIsUsedThatIsNotThere) {
  EXPECT_EQ(fault("0:forward 1"), "x[0] is not held");
  EXPECT_EQ(fault("0:backward 1"), "tape 1 is not held");
  EXPECT_EQ(fault("0:drop 2"), "x[2] is not held");
  EXPECT_EQ(fault("0:prefetch 2"), "x[2] is not offloaded");
  EXPECT_EQ(fault("0:prefetch_tape 2"), "tape 2 is not offloaded");
  EXPECT_EQ(fault("0:offload_tape 2"), "tape 2 is not held");
  EXPECT_EQ(fault("0:send_output 2"), "x[2] is not held");
  EXPECT_EQ(fault("0:send_gradient 2"), "the gradient of x[2] is not held");
  given({"0:receive_input 2"});
  EXPECT_EQ(fault("0:forward 3"), "the target is not loaded");
  EXPECT_EQ(fault("0:read_loss 3"), "the target is not loaded");
  EXPECT_EQ(fault("0:read_loss 2"), "the loss belongs to layer 3");
  given({"0:load_target 3"});
  EXPECT_EQ(fault("0:load_target 3"), "the target is loaded already");
  given({"0:forward_tape 3"});
  EXPECT_EQ(fault("0:backward 3"), "the gradient of x[3] is not held");
}

TEST_F(LedgerOfPowers, MicroBatchesAreApart) {
  given({"0:load_input 0", "7:load_input 0", "7:forward_tape 1"});
  EXPECT_EQ(fault("0:send_output 1"), "x[1] is not held");
  EXPECT_EQ(ledger_.held(), Bytes(20'002));
  given({"0:drop 0", "7:drop 0", "3:load_input 0"});
  EXPECT_EQ(ledger_.held(), Bytes(20'001));
}

TEST_F(LedgerOfPowers, LayersOutsideItsScopeAreRefused) {
  Ledger ledger(chain_, {2, 2, true});
  EXPECT_EQ(ledger.apply({Op::kForward, 1, 0}).fault, "layer 1 is not in 2..2");
  EXPECT_EQ(ledger.apply({Op::kForward, 3, 0}).fault, "layer 3 is not in 2..2");
  EXPECT_EQ(ledger.apply({Op::kReceiveInput, 0, 0}).fault, "output 0 is not in 1..2");
  EXPECT_EQ(ledger.apply({Op::kReceiveInput, 1, -1}).fault, "micro-batch -1");
  EXPECT_EQ(ledger.apply({Op::kReceiveInput, 1, 0}).fault, std::nullopt);
}

TEST_F(LedgerOfPowers, ValuesWithoutBytesStillExist) {
  const chain::Chain chain = chain_of(0, {{1, 1, 0, 0}, {1, 1, 0, 0}});
  Ledger ledger(chain, {});
  EXPECT_EQ(ledger.apply({Op::kForward, 1, 0}).fault, "x[0] is not held");
  EXPECT_EQ(ledger.apply({Op::kLoadInput, 0, 0}).fault, std::nullopt);
  EXPECT_EQ(ledger.apply({Op::kForwardTape, 1, 0}).fault, std::nullopt);
  EXPECT_EQ(ledger.held(), Bytes(0));
  EXPECT_FALSE(ledger.empty());
  EXPECT_EQ(ledger.values().size(), 2U);
}

TEST_F(LedgerOfPowers, EndOfAStepMovesNoBytes) {
  given({"0:load_input 0"});
  EXPECT_EQ(effect("0:reduce_gradients 0"), both(1, 1));
  EXPECT_EQ(effect("0:step 0"), both(1, 1));
}

}  // namespace
}  // namespace trireme::simulate
