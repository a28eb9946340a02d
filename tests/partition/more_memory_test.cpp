// Regressions: questions whose answers were slower than known ones, with more memory than needed,
// by named solvers, or in groups. The small ones were found by random search and shrunk.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "support/input_error.h"
#include "support/trials.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

namespace trireme::partition {
namespace {

using testing::HasSubstr;

chain::Chain chain_of(const std::string& layers, int input = 0) {
  return chain::read_chain(io::parse("format: trireme-chain/1\nname: small\ninput_bytes: " +
                                         std::to_string(input) + "\nlayers:\n" + layers,
                                     "chain"));
}

Question shipped(const std::string& name, int stages, std::int64_t memory) {
  Question question;
  question.chain = chain::load_chain(TRIREME_SOURCE_DIR "/configs/chains/" + name + ".yaml");
  question.platform = chain::uniform_platform(stages, Bytes(memory));
  question.stages = stages;
  question.micro_batches = 8;
  return question;
}

TEST(MoreMemory, IsNotSpentOnNumbersInFlightForWhichNearlyAllRunsTwice) {
  for (const auto& [name, stages] : {std::pair{"vgg-16", 3}, {"densenet-121", 6}}) {
    SCOPED_TRACE(name);
    const Answer none = partition::plan(shipped(name, stages, 1));
    const std::int64_t least = std::get<plan::Infeasible>(none).least_budget.count();
    Seconds fastest = kAnyTime;
    double memory = static_cast<double>(least);
    for (int k = 0; k < trials(14); ++k, memory *= 1.09) {
      const Seconds step = planned(shipped(name, stages, static_cast<std::int64_t>(memory))).step;
      EXPECT_LE(step, fastest * 1.01) << memory;
      fastest = std::min(fastest, step);
    }
  }
}

TEST(MoreMemory, OfOneByteIsNoReasonToRunThingsTwice) {
  Question question;
  question.chain = chain_of(
      "- {name: a, forward_s: 1, backward_s: 0, output_bytes: 0, tape_bytes: 1}\n"
      "- {name: b, forward_s: 0, backward_s: 0.004, output_bytes: 0, tape_bytes: 0}\n",
      4);
  question.stages = question.micro_batches = 2;
  for (const int memory : {8, 9}) {
    question.platform = chain::uniform_platform(2, Bytes(memory));
    EXPECT_DOUBLE_EQ(planned(question).step.count(), 2.008);
  }
}

TEST(AutoOfAPipeline, IsNoSlowerThanSolversByNameThatPlaceStateOtherwise) {
  Question question;
  question.chain = chain_of(
      "- {name: a, forward_s: 0, backward_s: 0, output_bytes: 4, tape_bytes: 2, parameter_bytes: "
      "11, gradient_bytes: 11}\n"
      "- {name: b, forward_s: 0, backward_s: 0.004, output_bytes: 0, tape_bytes: 0, "
      "parameter_bytes: 2, gradient_bytes: 2, optimizer_bytes: 4}\n"
      "- {name: c, forward_s: 0, backward_s: 0.005, output_bytes: 0, tape_bytes: 0, "
      "parameter_bytes: 1}\n",
      3);
  question.platform = chain::read_platform(
      io::parse("format: trireme-platform/1\nranks:\n- {memory_bytes: 40}\n"
                "- {memory_bytes: 40, disk_bytes: 305, out_bytes_per_s: 10000, in_bytes_per_s: "
                "10000}\nchannel_buffers: 0\nlinks: {default: {bytes_per_s: 50, latency_s: 0}}\n",
                "platform"));
  question.stages = question.micro_batches = 2;
  question.optimizer_copies = std::nullopt;
  question.streamed = std::nullopt;
  const Seconds chosen = planned(question).step;
  int plans = 0;
  for (const std::string name : {"madpipe", "adapipe", "joint"}) {
    question.solver = name;
    const Answer answer = partition::plan(question);
    if (const auto* const plan = std::get_if<plan::Plan>(&answer)) {
      EXPECT_LE(chosen, plan->step * (1 + 1e-9)) << name;
      ++plans;
    }
  }
  EXPECT_EQ(plans, 3);
}

TEST(GroupsOfAPipeline, KeepTapesOnAnotherCutWhereTheFastestOneWouldWaitInACircle) {
  Question question;
  question.chain = chain_of(
      "- {name: a, forward_s: 0.007235, backward_s: 0, output_bytes: 0, tape_bytes: 0, "
      "optimizer_bytes: 2}\n"
      "- {name: b, forward_s: 0.006, backward_s: 0.007161, output_bytes: 0, tape_bytes: 0}\n"
      "- {name: c, forward_s: 0, backward_s: 0.001613, output_bytes: 0, tape_bytes: 0, "
      "parameter_bytes: 1}\n"
      "- {name: d, forward_s: 0.007681, backward_s: 0.008, output_bytes: 0, tape_bytes: 0}\n");
  question.platform = chain::uniform_platform(2, Bytes(0));
  question.stages = 2;
  question.micro_batches = 7;
  question.group = 5;
  EXPECT_EQ(planned(question).recompute, Seconds(0));
}

TEST(GroupsOnOneRank, ThatNeedMoreAsTheyRunSayHowMuch) {
  Question question;
  question.chain = chain_of(
      "- {name: a, forward_s: 1, backward_s: 1, output_bytes: 0, tape_bytes: 0, "
      "forward_transient_bytes: 2, optimizer_bytes: 5}\n");
  question.micro_batches = 2;
  question.group = 2;
  question.platform = chain::uniform_platform(1, Bytes(5));
  const Answer answer = partition::plan(question);
  ASSERT_TRUE(std::holds_alternative<plan::Infeasible>(answer));
  const Bytes least = std::get<plan::Infeasible>(answer).least_budget;
  EXPECT_EQ(least, Bytes(7));
  question.platform = chain::uniform_platform(1, least);
  EXPECT_EQ(planned(question).group, 2);
}

TEST(UpdatesByName, OfAChainWithFrozenWeightsThatMayBeStreamedAreRefused) {
  Question question;
  question.chain = chain::load_chain(TRIREME_SOURCE_DIR "/configs/chains/gpt-13b-lora.yaml");
  question.platform = chain::load_platform(TRIREME_SOURCE_DIR "/configs/platforms/pcie-24-8.yaml");
  question.micro_batches = 2;
  question.streamed = std::nullopt;
  question.updates = program::UpdatePlace::kInForward;
  EXPECT_THAT(support::input_error([&] { partition::plan(question); }),
              HasSubstr("updates: found 'in_forward', but layer"));
}

}  // namespace
}  // namespace trireme::partition
