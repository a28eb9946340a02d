// Whatever a plan recomputes or moves: the same bits as without it, within the enforced budget, and
// with the peak that was predicted.
// SPDX-License-Identifier: Apache-2.0
#include "budget_cases.h"

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
  cases().expect_bits_and_peaks_of_random_programs(GetParam(), 8);
}

INSTANTIATE_TEST_SUITE_P(AllChains, RandomPrograms, testing::ValuesIn(BudgetCases::chains()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace trireme::runtime
