// Several programs per stage.
// SPDX-License-Identifier: Apache-2.0
#include "cut/plan_builder.h"
#include "partition/planned.h"
#include "support/trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace trireme::partition {
namespace {

/// Three layers on three ranks, forward and backward of 4 s each, inputs of 1 and tapes of 6 bytes.
/// Rank 0 has three micro-batches in flight: with all tapes kept it holds 3 x (6 + 1) and a
/// gradient of 1, with one of them kept and the others made again 7 + 2 x 1, the tape at work and
/// the gradient.
Question three_layers(std::int64_t memory) {
  Question question;
  question.chain = {.name = "three", .input = Bytes(1), .layers = {}};
  for (int i = 0; i < 3; ++i) question.chain.layers.push_back(solve::layer(4, 4, 1, 6));
  question.platform = chain::uniform_platform(3, Bytes(100));
  question.platform.ranks[0].memory = Bytes(memory);
  question.stages = 3;
  question.micro_batches = 9;
  question.slots = 0;
  question.cut = {{1, 2}};
  return question;
}

TEST(MixedPrograms, KeepForAsManyMicroBatchesAsMemoryHasRoomFor) {
  std::vector<std::int64_t> bytes_with_mixes;
  for (std::int64_t memory = 11; memory <= 24; ++memory) {
    SCOPED_TRACE(memory);
    const Question question = three_layers(memory);
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    if (!plan::has_mixes(plan)) continue;
    bytes_with_mixes.push_back(memory);
    EXPECT_EQ(plan.stages[0].mix.cycle, (std::vector<int>{0, 0, 1}));
    EXPECT_EQ(plan.recompute, Seconds(6 * 4)) << "two of every three of nine micro-batches";
  }
  EXPECT_THAT(bytes_with_mixes, testing::ElementsAre(16, 17, 18, 19, 20, 21));
  EXPECT_LT(planned(three_layers(22)).step, planned(three_layers(21)).step);
  EXPECT_LT(planned(three_layers(16)).step, planned(three_layers(15)).step);
}

TEST(MixedPrograms, AreSoundAndNeverSlowerAtRandom) {
  std::mt19937 random(91);
  int mixed = 0;
  for (int trial = 0; trial < trials(150); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question(random, {.least_layers = 3,
                                                .most_layers = 10,
                                                .least_stages = 2,
                                                .most_stages = 5,
                                                .most_micro_batches = 9});
    question.solver = "joint";
    const Answer answer = partition::plan(question);
    const auto* plan = std::get_if<plan::Plan>(&answer);
    if (plan == nullptr) continue;
    expect_sound(question, *plan);
    mixed += plan::has_mixes(*plan) ? 1 : 0;
    const plan::Alternative* const plain = alternative(*plan, "joint, best cut");
    if (plan::has_mixes(*plan) && plain != nullptr && plain->step) {
      EXPECT_LT(plan->step, *plain->step);
    }
  }
  EXPECT_GE(mixed, trials(5));
}

}  // namespace
}  // namespace trireme::partition
