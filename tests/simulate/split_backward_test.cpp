// Backwards in two parts: what they hold, when they may run, and how long a pipeline then takes.
// SPDX-License-Identifier: Apache-2.0

#include "simulate/simulated.h"
#include "simulate/validated.h"

#include "trireme/schedule/named.h"
#include "trireme/simulate/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trireme::simulate {
namespace {

/// Outputs 10 and 100, tapes 2000 and 30'000, transients 5 and 6 of whole backwards. Split
/// backwards leave 400'000 and 500'000 pending, with transients 7 and 8 of the first part, 70 and
/// 80 of the second.
chain::Chain powers() {
  chain::Chain chain = chain_of(1, {{1, 2, 10, 2'000, 0, 0, 5}, {1, 3, 100, 30'000, 0, 0, 6}});
  chain.layers[0].split = {Seconds(1), Bytes(400'000), Bytes(500'007), Bytes(70)};
  chain.layers[1].split = {Seconds(2), Bytes(5'000'000), Bytes(5'100'008), Bytes(80)};
  return chain;
}

class SplitLedger : public testing::Test {
 protected:
  Ledger::Outcome apply(const char* text) { return ledger_.apply(program::parse_action(text)); }
  void given(std::initializer_list<const char*> texts) {
    for (const char* text : texts) ASSERT_EQ(apply(text).fault, std::nullopt) << text;
  }
  void expect(const char* text, std::int64_t during, std::int64_t after) {
    const auto outcome = apply(text);
    EXPECT_EQ(outcome.fault, std::nullopt) << text;
    EXPECT_EQ(outcome.effect.during.count(), during) << text;
    EXPECT_EQ(outcome.effect.after.count(), after) << text;
  }
  std::string fault(const char* text) { return apply(text).fault.value_or("allowed"); }

  chain::Chain chain_ = powers();
  Ledger ledger_{chain_, {}};
};

TEST_F(SplitLedger, HoldsWhatIsPendingUntilTheSecondPart) {
  given({"0:load_input 0", "0:load_target 2", "0:forward_tape 1", "0:forward_tape 2",
         "0:read_loss 2"});
  ASSERT_EQ(ledger_.held(), Bytes(32'101));
  expect("0:backward_input 2", 32'101 + 5'100'008, 5'002'011);
  expect("0:backward_input 1", 5'002'011 + 500'007, 5'400'000);
  EXPECT_EQ(ledger_.values().size(), 2U);
  EXPECT_EQ(to_text(ledger_.values()[0]),
            "operands of the weight gradients of layer 1 of micro-batch 0");
  EXPECT_EQ(ledger_.values()[1].size, Bytes(5'000'000));
  expect("0:backward_weights 2", 5'400'080, 400'000);
  expect("0:backward_weights 1", 400'070, 0);
  EXPECT_TRUE(ledger_.empty());
}

TEST_F(SplitLedger, HasTheTwoPartsInOrderAndOnce) {
  given({"0:load_input 0", "0:load_target 2", "0:forward_tape 1", "0:forward_tape 2",
         "0:read_loss 2"});
  EXPECT_EQ(fault("0:backward_weights 2"), "no weight gradients of layer 2 are pending");
  given({"0:backward_input 2"});
  EXPECT_EQ(fault("0:backward 2"), "tape 2 is not held");
  EXPECT_EQ(fault("1:backward_weights 2"), "no weight gradients of layer 2 are pending");
  given({"0:backward_weights 2"});
  EXPECT_EQ(fault("0:backward_weights 2"), "no weight gradients of layer 2 are pending");
}

// The output in the tape may be an operand.
TEST_F(SplitLedger, KeepsTheTapeBelowWhatWaits) {
  given({"0:load_input 0", "0:load_target 2", "0:forward_tape 1", "0:forward_tape 2",
         "0:read_loss 2", "0:backward_input 2"});
  EXPECT_EQ(fault("0:offload_tape 1"),
            "x[1] in tape 1 may be an operand of the pending weight gradients of layer 2");
  given({"0:backward_weights 2", "0:offload_tape 1"});
}

// A recomputed tape changes both kinds of backwards by the same bytes.
TEST_F(SplitLedger, CountsABareTapeAsAWholeBackwardDoes) {
  chain_.layers[1].retape = {Seconds(1), Bytes(20'000), Bytes(0), Bytes(26)};
  given({"0:load_input 0", "0:load_target 2", "0:forward_tape 1", "0:forward_keep 2",
         "0:read_loss 2", "0:retape 2"});
  const Bytes held = ledger_.held();
  const auto outcome = apply("0:backward_input 2");
  EXPECT_EQ(outcome.effect.during, held + Bytes(5'100'008 + 20));
  EXPECT_EQ(outcome.effect.after, held + Bytes(5'000'000 - 20'000 - 100 + 10));
}

/// Stages of one equal layer: forward 1, both parts of the backward 1.
chain::Chain thirds(int layers) {
  chain::Chain chain =
      chain_of(0, std::vector<Costs>(static_cast<std::size_t>(layers), {1, 2, 1, 1}));
  for (chain::LayerCost& layer : chain.layers) layer.split = {Seconds(1), Bytes(1), Bytes(2), {}};
  return chain;
}

Deferred stage_numbers(int stages) {
  Deferred behind(static_cast<std::size_t>(stages));
  for (int k = 0; k < stages; ++k) behind[static_cast<std::size_t>(k)] = k;
  return behind;
}

// Qi et al. 2024, table 2: the bubble of 1F1B is (p - 1)(f + b + w), that of ZB-H1 (p - 1)(f + b -
// w).
TEST(SplitBackward, TakesTheStepOfZbH1) {
  for (int p = 2; p <= 8; ++p) {
    for (const int m : {p, p + 1, 2 * p, 3 * p + 1}) {
      const schedule::Order order = schedule::one_f_one_b({p, m});
      const Program whole = one_layer_each(p, order);
      const Program split = one_layer_each(p, with_deferred(order, stage_numbers(p)));
      const chain::Chain chain = thirds(p);
      const chain::Platform platform = open_platform(p);
      EXPECT_EQ(verdict(split, chain, platform), "proven");
      EXPECT_EQ(run(whole, chain, platform).step, Seconds(3 * m + 3 * (p - 1))) << p << " x " << m;
      EXPECT_EQ(run(split, chain, platform).step, Seconds(3 * m + (p - 1))) << p << " x " << m;
    }
  }
}

// The same paper: no rank of ZB-H1 holds more than the first one of 1F1B does. Here: at most p
// micro-batches in flight or pending.
TEST(SplitBackward, HoldsOnEveryRankAsManyMicroBatchesAsThereAreStages) {
  const int p = 5, m = 12;
  const Program split =
      one_layer_each(p, with_deferred(schedule::one_f_one_b({p, m}), stage_numbers(p)));
  for (const std::vector<program::Action>& actions : split.ranks) {
    int held = 0, most = 0;
    for (const program::Action& action : actions) {
      held += action.op == Op::kForwardTape ? 1 : action.op == Op::kBackwardWeights ? -1 : 0;
      most = std::max(most, held);
    }
    EXPECT_EQ(held, 0);
    EXPECT_EQ(most, p);
  }
}

TEST(SplitBackward, IsNotDoneBeforeItsSecondPartsAre) {
  const chain::Chain chain = thirds(2);
  Program split = one_layer_each(2, with_deferred(schedule::one_f_one_b({2, 2}), stage_numbers(2)));
  std::vector<program::Action>& actions = split.ranks[1];
  const auto second =
      std::find(actions.begin(), actions.end(), program::Action{Op::kBackwardWeights, 2, 1});
  ASSERT_NE(second, actions.end());
  std::vector<program::Action> late = actions;
  actions.erase(second);
  EXPECT_EQ(verdict(split, chain, open_platform(2)),
            "rank 1: operands of the weight gradients of layer 2 of micro-batch 1 is never freed");
  std::rotate(late.end() - 4, late.end() - 3, late.end());
  actions = late;
  EXPECT_EQ(verdict(split, chain, open_platform(2)),
            "rank 1, action 13 (0:reduce_gradients 0): a step ends with reduce_gradients, clip, "
            "step, in this order");
}

class RandomSplits : public testing::TestWithParam<unsigned> {};

// For all programs of stages.
TEST_P(RandomSplits, ComputeAsLongAsWholeBackwards) {
  Dice dice(GetParam());
  const int stages = dice.roll(2, 4);
  const chain::Chain chain = with_splits(dice, random_chain(dice, dice.roll(stages, stages + 5)));
  program::Lowering lowering;
  lowering.stages = random_stages(dice, chain, stages, dice.roll(0, 1) == 1);
  const schedule::PipelineShape shape{stages, dice.roll(1, 6)};
  lowering.order = random_order(dice, shape);
  const Program whole = program::lower(lowering);
  lowering.order =
      with_deferred(lowering.order, random_deferred(dice, stages, shape.micro_batches));
  const Program split = program::lower(lowering);
  const chain::Platform platform = open_platform(stages);
  const Simulation before = run(whole, chain, platform), after = run(split, chain, platform);
  expect_all_time_is_told(after);
  for (std::size_t rank = 0; rank < before.ranks.size(); ++rank)
    EXPECT_NEAR(after.ranks[rank].busy.count(), before.ranks[rank].busy.count(), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSplits, testing::Range(0U, 100U));

}  // namespace
}  // namespace trireme::simulate
