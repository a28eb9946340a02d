// Split backwards: where both parts stand.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trireme::program {
namespace {

using Deferred = std::vector<std::optional<int>>;

/// Stages of `layers` layers each, all taped, one for each number of deferred passes.
Program pipeline(const Deferred& deferred, int layers, int micro_batches) {
  const int stages = static_cast<int>(deferred.size());
  std::vector<int> in_flight;
  for (int k = 0; k < stages; ++k)
    in_flight.push_back(schedule::usual_in_flight("1f1b", {stages, micro_batches}, k));
  Lowering lowering{.stages = {},
                    .order = schedule::one_f_one_b_with(in_flight, micro_batches, deferred)};
  for (int k = 0; k < stages; ++k)
    lowering.stages.push_back(keep_all(k * layers + 1, (k + 1) * layers));
  return lower(lowering);
}

/// "F0.1 B0.1 >0.1 W0.1" for layer 1 of micro-batch 0; > is the send to the rank before.
std::string passes(const std::vector<Action>& actions) {
  std::vector<std::string> words;
  for (const Action& action : actions) {
    const std::string of = concat(action.micro_batch, ".", action.layer);
    if (is_forward(action.op)) words.push_back("F" + of);
    if (action.op == Op::kBackward) words.push_back("whole" + of);
    if (action.op == Op::kBackwardInput) words.push_back("B" + of);
    if (action.op == Op::kBackwardWeights) words.push_back("W" + of);
    if (action.op == Op::kSendGradient) words.push_back(">" + of);
    if (action.op == Op::kReduceGradients) words.push_back("end");
  }
  return join(words, " ");
}

TEST(SplitBackward, WithNoneBehindFollowsWhatThePassSends) {
  const Program program = pipeline({std::nullopt, 0}, 2, 2);
  EXPECT_EQ(passes(program.ranks[0]),
            "F0.1 F0.2 F1.1 F1.2 whole0.2 whole0.1 whole1.2 whole1.1 end");
  EXPECT_EQ(passes(program.ranks[1]),
            "F0.3 F0.4 B0.4 B0.3 >0.2 W0.4 W0.3 F1.3 F1.4 B1.4 B1.3 >1.2 W1.4 W1.3 end");
}

// Figure of Qi et al. for 3 stages and 4 micro-batches, one layer each.
TEST(SplitBackward, WithEveryStageAsManyBehindAsItsNumberIsZbH1) {
  const Program program = pipeline({0, 1, 2}, 1, 4);
  EXPECT_EQ(passes(program.ranks[0]),
            "F0.1 F1.1 F2.1 B0.1 W0.1 F3.1 B1.1 W1.1 B2.1 W2.1 B3.1 W3.1 end");
  EXPECT_EQ(passes(program.ranks[1]),
            "F0.2 F1.2 B0.2 >0.1 F2.2 B1.2 >1.1 W0.2 F3.2 B2.2 >2.1 W1.2 B3.2 >3.1 W2.2 W3.2 end");
  EXPECT_EQ(passes(program.ranks[2]),
            "F0.3 B0.3 >0.2 F1.3 B1.3 >1.2 F2.3 B2.3 >2.2 W0.3 F3.3 B3.3 >3.2 W1.3 W2.3 W3.3 end");
}

TEST(SplitBackward, WithMoreBehindThanThereAreMicroBatchesComesAtTheEnd) {
  const Program program = pipeline({std::nullopt, 7}, 1, 2);
  EXPECT_EQ(passes(program.ranks[1]), "F0.2 B0.2 >0.1 F1.2 B1.2 >1.1 W0.2 W1.2 end");
}

// Recomputation between the backwards of a pass stays where it is.
TEST(SplitBackward, ComesOncePerLayerAndInTheOrderOfMicroBatches) {
  for (int behind = 0; behind < 6; ++behind) {
    Lowering lowering{.stages = {recompute_all(1, 2), recompute_all(3, 5)},
                      .order = schedule::one_f_one_b({2, 5})};
    const Program whole = lower(lowering);
    lowering.order = schedule::one_f_one_b_with({2, 1}, 5, {behind, behind});
    const Program split = lower(lowering);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::map<int, std::vector<int>> first, second;  // micro-batches by layer
      std::vector<Action> rest, expected;
      for (Action action : split.ranks[rank]) {
        if (action.op == Op::kBackwardInput) first[action.layer].push_back(action.micro_batch);
        if (action.op == Op::kBackwardWeights) {
          second[action.layer].push_back(action.micro_batch);
          continue;
        }
        if (action.op == Op::kBackwardInput) action.op = Op::kBackward;
        rest.push_back(action);
      }
      EXPECT_EQ(rest, whole.ranks[rank]);
      EXPECT_EQ(first.size(), rank == 0 ? 2U : 3U);
      EXPECT_EQ(first, second);
      for (const auto& [layer, micro_batches] : second)
        EXPECT_EQ(micro_batches, (std::vector<int>{0, 1, 2, 3, 4}));
    }
  }
}

TEST(SplitBackward, HasATextForm) {
  const Program program = pipeline({1, 1}, 2, 2);
  EXPECT_EQ(parse_program(to_text(program)), program);
  EXPECT_EQ(to_text(Action{Op::kBackwardInput, 3, 2}), "2:backward_input 3");
  EXPECT_EQ(to_text(Action{Op::kBackwardWeights, 3, 2}), "2:backward_weights 3");
}

}  // namespace
}  // namespace trireme::program
