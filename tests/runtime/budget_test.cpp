// Plans that recompute or offload: the same bits as without, within the enforced budget, and with
// the predicted peak.
// SPDX-License-Identifier: Apache-2.0
#include "budget_cases.h"
#include "budgeted.h"

#include "trireme/program/generate.h"

#include <algorithm>

namespace trireme::runtime {
namespace {

BudgetCases& cases() {
  static BudgetCases all(cpu_machine());
  return all;
}

class Budget : public testing::TestWithParam<BudgetCase> {
 protected:
  static void TearDownTestSuite() { cases().say_how_it_went(); }
};

TEST_P(Budget, KeepsTheBitsAndThePeak) {
  cases().expect_bits_and_peaks(GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllSolvers, Budget, testing::ValuesIn(BudgetCases::all()),
                         BudgetCases::test_name);

class RandomPrograms : public testing::TestWithParam<std::string> {};

TEST_P(RandomPrograms, GiveTheBitsOfKeepAllAtThePredictedPeak) {
  cases().expect_bits_and_peaks_of_random_programs(GetParam(), 5);
}

INSTANTIATE_TEST_SUITE_P(AllChains, RandomPrograms, testing::ValuesIn(BudgetCases::chains()),
                         [](const auto& test) { return test.param; });

/// Tapes of layers 1 to `last` are offloaded before layer `last` + 2 runs, and copied back when
/// they are needed.
program::StageProgram tapes_leave(int layers, int last) {
  program::StageProgram program = program::keep_all(1, layers);
  const auto before = [](std::vector<program::Action>& actions, const program::Action& one) {
    return std::find(actions.begin(), actions.end(), one);
  };
  const auto next = before(program.forward, {program::Op::kForwardTape, last + 2});
  std::vector<program::Action> leave;
  for (int i = 1; i <= last; ++i) leave.push_back({program::Op::kOffloadTape, i});
  program.forward.insert(next, leave.begin(), leave.end());
  for (int i = 1; i <= last; ++i)
    program.backward.insert(before(program.backward, {program::Op::kBackward, i + 2}),
                            {program::Op::kPrefetchTape, i});
  return program;
}

// The layers after those with offloaded tapes have by far the largest weights, which are copied in
// while tapes may still be there.
TEST(Budget, WeightsComeInTheBytesOfWhatHasLeft) {
  config::JobSpec job = small_job(config::VggSpec{
      .depth = 11, .image_size = 64, .width = 16, .batch_norm = false, .dropout = 0});
  job.train.micro_batch = job.train.batch = 16;
  Subject subject(model::make_model(job.model), job, cpu_machine());
  const int layers = subject.chain().length();
  plan::Plan plan = subject.plan("keep_all", subject.keep_all_budget()).value();
  plan.stages.front().program = tapes_leave(layers, 6);
  for (int i = 3; i < layers; ++i) plan.stages.front().streamed.push_back(i);
  ASSERT_EQ(subject.fault(plan), "");
  for (const double speed : {4, 16, 32}) {
    const PlannedRun free = subject.run(plan, Bytes(0), speed);
    EXPECT_LE(free.peak, free.predicted_peak + Bytes(8 << 10));
    EXPECT_EQ(free.numbers.losses, subject.expected().losses);
  }
}

}  // namespace
}  // namespace trireme::runtime
