// Advice on host memory, where weights, gradients and optimizer state must be offloaded.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "partition/weighed.h"
#include "support/trials.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <random>

namespace trireme::partition {
namespace {

TEST(WeightsAdvice, IsAdvisedWhereItWouldDo) {
  Question question = with_frozen(equal_layers(8, 1, 3, 1000), std::vector<std::int64_t>(8, 10));
  question.solver = "keep_all";
  question.platform.ranks[0].memory = keep_all_budget(question) - Bytes(30);
  const Answer answer = partition::plan(question);
  ASSERT_TRUE(std::holds_alternative<plan::Infeasible>(answer));
  EXPECT_THAT(where_and_advice(std::get<plan::Infeasible>(answer)),
              testing::HasSubstr("it would fit with 101 B (101 bytes) of host memory for frozen"));
  question.platform.ranks[0].host = Bytes(101);
  question.platform.ranks[0].out = question.platform.ranks[0].in = BytesPerSecond(1);
  EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(question)));

  question.platform.ranks[0].memory = Bytes(1);
  EXPECT_THAT(where_and_advice(std::get<plan::Infeasible>(partition::plan(question))),
              testing::Not(testing::HasSubstr("it would fit")));
}

TEST(WeightsAdvice, IsAdvisedBesideTheOptimizersStateWhereItTakesBoth) {
  Question question = with_frozen(equal_layers(8, 1, 3, 1000), std::vector<std::int64_t>(8, 10));
  for (chain::LayerCost& layer : question.chain.layers) layer.optimizer = Bytes(10);
  question.solver = "keep_all";
  question.optimizer_copies = std::nullopt;
  question.platform.ranks[0].memory = keep_all_budget(question) - Bytes(60 + 80);
  const auto where = [&] {
    return where_and_advice(std::get<plan::Infeasible>(partition::plan(question)));
  };
  EXPECT_THAT(where(), testing::HasSubstr("it would fit with 186 B (186 bytes) of host memory for "
                                          "frozen weights and the optimizer's state"));
  Question with = question;
  with.platform.ranks[0].host = Bytes(186);
  with.platform.ranks[0].out = with.platform.ranks[0].in = BytesPerSecond(1);
  EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(with)));
  // Where offloading state alone suffices, that is the only advice.
  with = question;
  for (chain::LayerCost& layer : with.chain.layers) layer.optimizer = Bytes(50);
  with.platform.ranks[0].memory = keep_all_budget(with) - Bytes(60);
  const auto alone = std::get<plan::Infeasible>(partition::plan(with));
  EXPECT_THAT(where_and_advice(alone),
              testing::HasSubstr("of host memory for the optimizer's state"));
  EXPECT_EQ(alone.advice.size(), 1U);
  question.optimizer_copies = Seconds(0);
  EXPECT_THAT(where(), testing::Not(testing::HasSubstr("it would fit")));
}

/// "(N bytes) of host memory" in an answer that nothing fits.
std::optional<Bytes> advised_host(const Answer& answer) {
  const auto* const why = std::get_if<plan::Infeasible>(&answer);
  if (why == nullptr) return std::nullopt;
  for (const plan::Advice& one : why->advice)
    if (one.kind == plan::Advice::Kind::kHostMemory)
      return Bytes(std::stoll(one.change.substr(one.change.find('(') + 1)));
  return std::nullopt;
}

// What a pipeline or a joint planner says of ranks and stages is other advice.
TEST(WeightsAdvice, IsGivenBesideThatOfRanksAndStages) {
  for (const int stages : {1, 2}) {
    SCOPED_TRACE(stages);
    Question question =
        with_frozen(equal_layers(8, stages, 2, 60 / stages), std::vector<std::int64_t>(8, 10));
    question.solver = stages == 1 ? "joint" : "auto";
    const Answer answer = partition::plan(question);
    const std::optional<Bytes> host = advised_host(answer);
    ASSERT_TRUE(host);
    EXPECT_GT(std::get<plan::Infeasible>(answer).advice.size(), 1U);
    EXPECT_THAT(where_and_advice(std::get<plan::Infeasible>(answer)),
                testing::AllOf(testing::HasSubstr("more on rank 0 alone"),
                               testing::HasSubstr("of host memory for frozen weights")));
    for (chain::RankSpec& rank : question.platform.ranks) {
      rank.host = *host;
      rank.out = rank.in = BytesPerSecond(1);
    }
    EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(question)));
  }
}

// Host memory without copies does not help.
TEST(WeightsAdvice, IsNoneWhereNothingCanLeave) {
  Question question = with_frozen(equal_layers(8, 1, 3, 1000), std::vector<std::int64_t>(8, 0));
  for (chain::LayerCost& layer : question.chain.layers) {
    layer.optimizer = Bytes(20);
    layer.parameters = layer.trained = layer.gradients = layer.trained_gradients = Bytes(10);
  }
  question.solver = "keep_all";
  question.optimizer_copies = std::nullopt;
  chain::RankSpec& rank = question.platform.ranks[0];
  rank.memory = keep_all_budget(question) - Bytes(100);
  const auto where = [&] {
    return where_and_advice(std::get<plan::Infeasible>(partition::plan(question)));
  };
  EXPECT_THAT(where(), testing::HasSubstr("it would fit"));
  rank.in = BytesPerSecond(1);
  EXPECT_THAT(where(), testing::Not(testing::HasSubstr("it would fit")));
  rank.out = BytesPerSecond(1);
  EXPECT_THAT(where(), testing::HasSubstr("it would fit"));
}

/// Enlarges the chain so that a margin of a few bytes does not matter.
void enlarge(chain::Chain& chain) {
  for (chain::LayerCost& layer : chain.layers)
    for (Bytes* const size :
         {&layer.output, &layer.tape, &layer.forward_transient, &layer.tape_transient,
          &layer.backward_transient, &layer.parameters, &layer.gradients, &layer.optimizer,
          &layer.frozen, &layer.trained, &layer.trained_gradients})
      *size = *size * 1000;
  chain.input = chain.input * 1000;
}

TEST(WeightsAdvice, AnAdvisedAmountOfHostMemoryIsEnough) {
  std::mt19937 random(29);
  int advised = 0;
  for (int trial = 0; trial < trials(200); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question_with_weights(
        random, {.least_layers = 2, .least_stages = 1, .most_stages = 1});
    for (chain::LayerCost& layer : question.chain.layers)
      layer.optimizer = Bytes(between(random, 0, 6));
    enlarge(question.chain);
    question.optimizer_copies = std::nullopt;
    // With hardly more than the least budget of a rank with all the host memory that it can use.
    question.solver = trial % 2 == 0 ? "pofo" : "rotor";
    chain::RankSpec& rank = question.platform.ranks[0];
    rank.memory = Bytes(1);
    rank.host = Bytes(10'000'000);
    rank.memory = std::get<plan::Infeasible>(partition::plan(question)).least_budget +
                  Bytes(between(random, 0, 4000));
    rank.host = Bytes(between(random, 0, 8000));
    const std::optional<Bytes> host = advised_host(partition::plan(question));
    if (!host) continue;
    ++advised;
    rank.host = std::max(rank.host, *host);
    EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(question))) << host->count();
  }
  std::printf("%d advised\n", advised);
  EXPECT_GE(advised, trials(40));
}

}  // namespace
}  // namespace trireme::partition
