// The validator against generated programs, random programs, random mistakes, and a second
// implementation of the rules.
// SPDX-License-Identifier: Apache-2.0
#include "simulate/oracle.h"
#include "simulate/validated.h"

#include "trireme/core/text.h"
#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

using program::Action;
using program::Program;

TEST(Validate, AcceptsWhatIsGenerated) {
  for (int stages = 1; stages <= 8; ++stages) {
    const chain::Chain chain = even_chain(stages + 2);
    const chain::Platform platform = open_platform(stages);
    for (int micro_batches = 1; micro_batches <= 16; ++micro_batches) {
      for (const auto order : {schedule::one_f_one_b, schedule::gpipe}) {
        for (const auto policy : {program::keep_all, program::recompute_all}) {
          program::Lowering lowering;
          for (int k = 1; k < stages; ++k) lowering.stages.push_back(policy(k, k));
          lowering.stages.push_back(policy(stages, stages + 2));
          lowering.order = order({stages, micro_batches});
          EXPECT_EQ(verdict(program::lower(lowering), chain, platform, 1), "proven")
              << stages << " stages, " << micro_batches << " micro-batches";
        }
      }
    }
  }
}

TEST(Validate, AcceptsEvaluation) {
  program::Lowering lowering{{program::evaluate(1, 1), program::evaluate(2, 4)},
                             schedule::forwards_only(schedule::one_each(2), 5)};
  lowering.end = program::StepEnd::kNone;
  EXPECT_EQ(verdict(program::lower(lowering), even_chain(4), open_platform(2)), "proven");
}

TEST(Validate, AcceptsSeveralStagesOnOneRank) {
  for (const auto order : {schedule::one_f_one_b, schedule::gpipe}) {
    for (const auto policy : {program::keep_all, program::recompute_all}) {
      for (const auto& ranks : std::vector<std::vector<int>>{
               {0, 1, 0, 1}, {0, 0, 1, 1}, {1, 0, 0, 2}, {0, 0, 0, 0}, {2, 1, 0, 2}}) {
        program::Lowering lowering{{policy(1, 2), policy(3, 3), policy(4, 4), policy(5, 6)},
                                   schedule::on_ranks(order({4, 5}), ranks),
                                   ranks};
        EXPECT_EQ(verdict(program::lower(lowering), even_chain(6), open_platform(3)), "proven");
      }
    }
  }
}

class RandomPrograms : public testing::TestWithParam<unsigned> {};

TEST_P(RandomPrograms, AreProvenAndNeedWhatTheOracleCounts) {
  Dice dice(GetParam());
  const int stages = dice.roll(1, 4);
  const int layers = dice.roll(stages, stages + 5);
  const chain::Chain chain = with_splits(dice, random_chain(dice, layers));
  program::Lowering lowering;
  lowering.stages = random_stages(dice, chain, stages, dice.roll(0, 1) == 1);
  const schedule::PipelineShape shape{stages, dice.roll(1, 6)};
  const schedule::Order order = random_order(dice, shape);
  lowering.order = with_deferred(order, random_deferred(dice, stages, shape.micro_batches));
  const Program program = program::lower(lowering);
  Oracle oracle(chain, program, 1);
  ASSERT_TRUE(oracle.legal()) << to_text(program);

  chain::Platform platform = open_platform(stages);
  for (int rank = 0; rank < stages; ++rank)
    platform.ranks[static_cast<std::size_t>(rank)].memory =
        Bytes(oracle.peak(static_cast<std::size_t>(rank)));
  EXPECT_EQ(verdict(program, chain, platform, 1), "proven") << to_text(program);

  const int tight = dice.roll(0, stages - 1);
  Bytes& memory = platform.ranks[static_cast<std::size_t>(tight)].memory;
  ASSERT_GT(memory, Bytes(1));  // a budget of 0 would stand for none
  memory -= Bytes(1);
  EXPECT_THAT(verdict(program, chain, platform, 1),
              testing::MatchesRegex(concat("rank ", tight, ", action .*the budget is .*")));
}

TEST_P(RandomPrograms, WrongInOnePlaceAreRefusedAsTheOracleDoes) {
  Dice dice(GetParam() + 1'000'000);
  const int stages = dice.roll(1, 3);
  const int layers = dice.roll(stages, stages + 3);
  const chain::Chain chain = with_splits(dice, random_chain(dice, layers));
  const chain::Platform platform = open_platform(stages);
  program::Lowering lowering;
  lowering.stages = random_stages(dice, chain, stages, dice.roll(0, 1) == 1);
  const schedule::PipelineShape shape{stages, dice.roll(1, 4)};
  const schedule::Order order = random_order(dice, shape);
  lowering.order = with_deferred(order, random_deferred(dice, stages, shape.micro_batches));
  const Program good = program::lower(lowering);
  int refused = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Program bad = good;
    auto& actions = bad.ranks[static_cast<std::size_t>(dice.roll(0, stages - 1))];
    const int most = static_cast<int>(actions.size()) - 1;
    const int at = dice.roll(0, most);
    const int kind = dice.roll(0, 3);
    if (kind == 0)
      std::swap(actions[static_cast<std::size_t>(at)],
                actions[static_cast<std::size_t>(std::min(at + 1, most))]);
    if (kind == 1)
      std::swap(actions[static_cast<std::size_t>(at)],
                actions[static_cast<std::size_t>(dice.roll(0, most))]);
    if (kind == 2) actions.erase(actions.begin() + at);
    if (kind == 3)
      actions.insert(actions.begin() + dice.roll(0, most + 1),
                     Action(actions[static_cast<std::size_t>(at)]));
    const int capacity = dice.roll(1, 2);
    const bool legal = Oracle(chain, bad, static_cast<std::size_t>(capacity)).legal();
    const std::string found = verdict(bad, chain, platform, capacity);
    EXPECT_EQ(found == "proven", legal) << found << "\n" << to_text(bad);
    refused += legal ? 0 : 1;
  }
  EXPECT_GT(refused, 20) << "the mutations should mostly do harm";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(0U, 150U));

}  // namespace
}  // namespace trireme::simulate
