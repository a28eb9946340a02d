// The planner against every cut and every program of small pipelines.
// SPDX-License-Identifier: Apache-2.0
#include "partition/every_cut.h"
#include "partition/instances.h"
#include "support/trials.h"

#include "trireme/simulate/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace trireme::partition {
namespace {

constexpr double kSame = 1e-9;

TEST(JointPlanner, IsTheOptimumOverCutsAndProgramsNearlyAlways) {
  std::mt19937 random(20210);
  int feasible = 0, equal = 0, above = 0, below = 0, missed = 0;
  double gap = 0, worst = 0;
  for (int trial = 0; trial < trials(1100); ++trial) {
    const Question question = as_scheduled(small_question(random, {}));
    const Optimum optimum = EveryCut(question, false).search();
    const Answer answer = plan(question);
    const auto* found = std::get_if<plan::Plan>(&answer);
    if (std::isinf(optimum.step)) {
      EXPECT_EQ(found, nullptr) << trial;
      continue;
    }
    ++feasible;
    if (found == nullptr) {
      ++missed;
      continue;
    }
    EXPECT_GE(found->step.count(), optimum.least_of(*found) * (1 - kSame)) << trial;
    EXPECT_LE(found->step.count(), EveryCut(question, true).search().step * (1 + kSame)) << trial;
    const double more = found->step.count() / optimum.step - 1;
    if (std::abs(more) <= kSame) {
      ++equal;
    } else if (more < 0) {
      ++below;
    } else {
      ++above;
      gap += more;
      worst = std::max(worst, more);
    }
  }
  RecordProperty("feasible", feasible);
  RecordProperty("equal", equal);
  RecordProperty("below", below);
  RecordProperty("above", above);
  RecordProperty("mean_gap", std::to_string(gap / feasible));
  RecordProperty("worst_gap", std::to_string(worst));
  EXPECT_GE(feasible, trials(500));
  EXPECT_EQ(missed, 0);
  EXPECT_GE(equal + below, feasible * 98 / 100);
  EXPECT_LE(gap / feasible, 0.0015);
}

TEST(JointPlanner, IsOftenFasterWithFewerInFlightAndNeverSlower) {
  std::mt19937 random(20210);
  int faster = 0;
  for (int trial = 0; trial < trials(500); ++trial) {
    Question question = small_question(random, {});
    question.solver = "joint";
    const Answer open = plan(question), scheduled = plan(as_scheduled(question));
    const auto* found = std::get_if<plan::Plan>(&open);
    const auto* usual = std::get_if<plan::Plan>(&scheduled);
    if (usual == nullptr) continue;  // fewer in flight need less: least_budget_test.cpp
    ASSERT_NE(found, nullptr);
    EXPECT_LE(found->step.count(), usual->step.count() * (1 + kSame)) << trial;
    faster += found->step.count() < usual->step.count() * (1 - kSame) ? 1 : 0;
    EXPECT_FALSE(
        simulate::validate(plan::compile(*found, question.chain), setting_of(question, *found)))
        << trial;
  }
  EXPECT_GT(faster, trials(2));
}

}  // namespace
}  // namespace trireme::partition
