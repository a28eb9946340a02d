// Plans for energy and deadlines, against plans for time, exhaustive search and closed forms.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/goal.h"

#include "goal/clocks.h"
#include "goal/lean_cut.h"
#include "partition/planned.h"
#include "support/input_error.h"
#include "support/trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <random>

namespace trireme::partition {
namespace {

const Goal kEnergyAtAnyTime{.objective = Objective::kEnergy};

Question with_power(Question question, const chain::Power& power) {
  for (chain::RankSpec& rank : question.platform.ranks) rank.power = power;
  return question;
}

const plan::Plan* plan_of(const Explained& explained) {
  return std::get_if<plan::Plan>(&explained.answer);
}

TEST(DeadlineOf, ReadsATimeAFactorAndNone) {
  EXPECT_EQ(deadline_of("120ms"), (Deadline{.time = Seconds(0.12)}));
  EXPECT_EQ(deadline_of("1.05x"), (Deadline{.factor = 1.05}));
  EXPECT_EQ(deadline_of("1x"), (Deadline{.factor = 1}));
  EXPECT_EQ(deadline_of("0.5x"), (Deadline{.factor = 0.5}));
  EXPECT_EQ(deadline_of("none"), Deadline{});
  for (const char* const bad :
       {"", "x", "0x", "-1x", "infx", "nanx", "1.1 x", "1.1y", "0s", "-1s", "1ms x", "1.1xx"})
    EXPECT_EQ(deadline_of(bad), std::nullopt) << bad;
}

TEST(Deadline, IsTheEarlierOfTimeAndFactor) {
  EXPECT_EQ((Deadline{.time = Seconds(5)}.of(Seconds(3))), Seconds(5));
  EXPECT_EQ((Deadline{.factor = 1.5}.of(Seconds(4))), Seconds(6));
  EXPECT_EQ((Deadline{.time = Seconds(5), .factor = 2}.of(Seconds(4))), Seconds(5));
  EXPECT_EQ(Deadline{}.of(Seconds(4)), kAnyTime);
}

TEST(PlanForTime, IsThePlan) {
  const Question question = equal_layers(8, 2, 4, 24);
  EXPECT_EQ(*plan_of(plan_for(question, {})), planned(question));
  EXPECT_EQ(*plan_of(plan_for(question, {.deadline = {.factor = 1}})), planned(question));
}

TEST(PlanForEnergy, IsRefusedWhereNothingSaysWhatItCosts) {
  const Question question = equal_layers(8, 2, 4, 24);
  EXPECT_THAT(support::input_error([&] { plan_for(question, kEnergyAtAnyTime); }),
              testing::HasSubstr("neither the chain (forward_j, backward_j) nor the platform "
                                 "(busy_w, idle_w) says what energy costs"));
}

// The chain whose times are its joules: its fastest step is the least energy of the other.
Question with_joules_as_times(Question question) {
  for (chain::LayerCost& layer : question.chain.layers) {
    layer.forward = Seconds(layer.forward_energy.count());
    layer.backward = Seconds(layer.backward_energy.count());
  }
  return question;
}

TEST(PlanForEnergy, IsTheLeastOfAllProgramsOfOneRankWithoutCopies) {
  std::mt19937 random(7);
  int differ = 0;
  for (int k = 0; k < 120; ++k) {
    Question question =
        small_question(random, {.most_layers = 5, .least_stages = 1, .most_stages = 1});
    question.solver = "exhaustive";
    question.platform.ranks.front().speed = 1;
    for (chain::LayerCost& layer : question.chain.layers) {
      layer.forward_energy = Joules(between(random, 1, 9));
      layer.backward_energy = Joules(between(random, 1, 9));
    }
    const Answer least = partition::plan(with_joules_as_times(question));
    const Explained found = plan_for(question, kEnergyAtAnyTime);
    const auto* const oracle = std::get_if<plan::Plan>(&least);
    ASSERT_EQ(plan_of(found) != nullptr, oracle != nullptr) << k;
    if (oracle == nullptr) continue;
    EXPECT_NEAR(plan_of(found)->energy.count(), oracle->step.count(), 1e-9) << k;
    const plan::Plan fastest = planned(question);
    differ += plan_of(found)->step > fastest.step ? 1 : 0;
    EXPECT_LE(plan_of(found)->energy, fastest.energy) << k;
  }
  EXPECT_GT(differ, 0) << "in no case does the least energy take longer than the fastest step";
}

TEST(PlanForEnergy, EndsByTheDeadlineAndTakesNoMoreThanTheFastest) {
  std::mt19937 random(8);
  for (int k = 0; k < trials(60); ++k) {
    const Question question =
        with_power(with_links(small_question(random, {.most_layers = 6, .least_stages = 1}),
                              0.5 * between(random, 1, 6)),
                   {.busy = Watts(10),
                    .idle = Watts(between(random, 0, 4)),
                    .copy_out = Watts(1),
                    .copy_in = Watts(1)});
    const Answer answer = partition::plan(question);
    const auto* const fastest = std::get_if<plan::Plan>(&answer);
    const double factor = 1 + 0.1 * between(random, 0, 5);
    const Explained found =
        plan_for(question, {.objective = Objective::kEnergy, .deadline = {.factor = factor}});
    ASSERT_EQ(plan_of(found) != nullptr, fastest != nullptr) << k;
    if (fastest == nullptr) continue;
    const plan::Plan& plan = *plan_of(found);
    EXPECT_LE(plan.step, fastest->step * factor) << k;
    EXPECT_LE(plan.energy, fastest->energy) << k;
    EXPECT_EQ(simulated(question, plan, simulate::Detail::kFigures).energy.all(), plan.energy);
  }
}

// Eight layers take 24 seconds and 240 joules at most without recomputation; what does not fit is
// recomputed, 1 second and 10 joules a layer, or copied for 1 joule a byte and a wait.
TEST(TradeOff, CopiesWhereTimeIsFreeAndRecomputesWhereItIsNot) {
  Question question = with_links(equal_layers(8, 1, 1, 14), 0.25);
  question =
      with_power(question, {.busy = Watts(10), .copy_out = Watts(0.01), .copy_in = Watts(0.01)});
  const TradeOff plans = trade_off(question, {}).plans;
  ASSERT_GE(plans.size(), 2U);
  EXPECT_EQ(plans.front().step, planned(question).step);
  EXPECT_GT(plans.front().recompute, plans.back().recompute);
  EXPECT_LT(plans.back().energy, plans.front().energy);
  for (std::size_t k = 0; k < plans.size(); ++k) {
    expect_sound(question, plans[k]);
    if (k == 0) continue;
    EXPECT_GT(plans[k].step, plans[k - 1].step);
    EXPECT_LT(plans[k].energy, plans[k - 1].energy);
  }
}

TEST(PlanFor, SaysTheLeastStepAndABudgetForADeadlineThatNoPlanMeets) {
  const Question question = equal_layers(12, 1, 1, 12);
  const Seconds fastest = planned(question).step;
  const Seconds deadline = fastest * 0.9;
  const Explained late = plan_for(question, {.deadline = {.time = deadline}});
  const auto* const why = std::get_if<plan::Infeasible>(&late.answer);
  ASSERT_NE(why, nullptr);
  EXPECT_EQ(why->reason, plan::Infeasible::Reason::kDeadline);
  EXPECT_EQ(why->least_step, fastest);
  Question richer = question;
  richer.platform.ranks.front().memory = why->least_budget;
  EXPECT_LE(planned(richer).step, deadline);
  // In bytes, the least: one less, and no plan is in time.
  richer.platform.ranks.front().memory = why->least_budget - Bytes(1);
  EXPECT_GT(planned(richer).step, deadline);
}

TEST(PlanFor, NamesNoBudgetForADeadlineThatNoneMeets) {
  const Question question = equal_layers(12, 1, 1, 12);
  const Explained late = plan_for(question, {.deadline = {.time = Seconds(12 * 3 - 1)}});
  EXPECT_EQ(std::get<plan::Infeasible>(late.answer).least_budget, Bytes(0));
}

TEST(FastestStep, IsThatOfTheFastestPlanBesideTheChosenOne) {
  const Question question =
      with_power(with_links(equal_layers(8, 1, 1, 14), 0.25), {.busy = Watts(10)});
  const Explained leanest = plan_for(question, kEnergyAtAnyTime);
  EXPECT_GT(plan_of(leanest)->step, planned(question).step);
  EXPECT_EQ(fastest_step(*plan_of(leanest)), planned(question).step);
  EXPECT_EQ(fastest_step(planned(question)), planned(question).step);
}

const std::vector<chain::Clock> kClocks{{"slow", 1.25, 0.6}, {"slower", 1.6, 0.45}};

/// Least energy by the deadline over all clocks of all stages and kinds of pass.
Joules least_of_all_clocks(const Question& question, plan::Plan plan, Seconds deadline) {
  std::vector<std::string*> names;
  for (plan::StagePlan& stage : plan.stages) {
    names.push_back(&stage.forward_clock);
    names.push_back(&stage.backward_clock);
  }
  Joules least(std::numeric_limits<double>::infinity());
  const std::function<void(std::size_t)> extend = [&](std::size_t k) {
    if (k == names.size()) {
      const auto simulation = simulated(question, plan, simulate::Detail::kFigures);
      if (simulation.step <= deadline) least = std::min(least, simulation.energy.all());
      return;
    }
    for (const char* const name : {"", "slow", "slower"}) {
      *names[k] = name;
      extend(k + 1);
    }
  };
  extend(0);
  return least;
}

TEST(WithClocks, AreNearlyTheBestOfAllClocks) {
  std::mt19937 random(9);
  double excess = 0, worst = 0;
  int count = 0, equal = 0;
  for (int k = 0; k < trials(80); ++k) {
    Question question =
        with_power(small_question(random, {.least_layers = 3, .most_layers = 6, .least_stages = 2}),
                   {.busy = Watts(10), .idle = Watts(between(random, 0, 3))});
    for (chain::RankSpec& rank : question.platform.ranks) rank.clocks = kClocks;
    const Answer answer = partition::plan(question);
    const auto* const plan = std::get_if<plan::Plan>(&answer);
    if (plan == nullptr) continue;
    const double factor = k % 2 == 0 ? 1 : 1 + 0.05 * between(random, 1, 8);
    const Seconds deadline = plan->step * factor;
    const plan::Plan slowed = with_clocks(question, *plan, deadline);
    const Joules least = least_of_all_clocks(question, *plan, deadline);
    EXPECT_LE(slowed.step, deadline);
    EXPECT_LE(slowed.energy, plan->energy);
    EXPECT_GE(slowed.energy.count(), least.count() * (1 - 1e-12)) << k;
    EXPECT_EQ(simulated(question, slowed, simulate::Detail::kFigures).energy.all(), slowed.energy);
    excess += slowed.energy / least - 1;
    worst = std::max(worst, slowed.energy / least - 1);
    equal += slowed.energy <= least * (1 + 1e-12) ? 1 : 0;
    ++count;
  }
  ASSERT_GT(count, trials(80) / 2);
  std::cout << equal << " of " << count << " plans have the best clocks, " << 100 * excess / count
            << " % more energy in the mean, " << 100 * worst << " % at worst\n";
  EXPECT_LT(excess / count, 0.01) << "of " << count;
}

// The first stage's passes may take as long as the second's.
TEST(PlanForEnergy, SlowsPassesThatNobodyWaitsFor) {
  Question question = equal_layers(2, 2, 8, 0);
  question.chain.layers[1].forward = Seconds(1.25);
  question.chain.layers[1].backward = Seconds(2.5);
  question.cut = std::vector{1};
  question = with_power(question, {.busy = Watts(100), .idle = Watts(20)});
  for (chain::RankSpec& rank : question.platform.ranks) rank.clocks = kClocks;
  const Explained found =
      plan_for(question, {.objective = Objective::kEnergy, .deadline = {.factor = 1.05}});
  ASSERT_NE(plan_of(found), nullptr);
  const plan::Plan fastest = planned(question);
  const plan::Plan& plan = *plan_of(found);
  EXPECT_LE(plan.step, fastest.step * 1.05);
  EXPECT_LT(plan.energy, fastest.energy * 0.95);
  EXPECT_EQ(plan.stages[0].forward_clock, "slow");
  EXPECT_EQ(plan.stages[1].forward_clock, "");
  EXPECT_EQ(plan::read_plan(io::parse(plan::to_json(plan), "plan.json")), plan);
}

/// A pipeline whose ranks may go slower, without budgets.
Question with_slower_clocks(std::mt19937& random) {
  Question question =
      with_power(small_question(random, {.least_layers = 4, .most_layers = 7, .least_stages = 2}),
                 {.busy = Watts(10), .idle = Watts(between(random, 0, 3))});
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.clocks = kClocks;
    rank.memory = Bytes(0);
  }
  return question;
}

/// Energy of a period with this cut, each stage at the best clock at which it is in time.
Joules energy_per_period(const Question& question, const Cut& cut, Seconds period) {
  Joules energy;
  for (std::size_t k = 0; k < cut.size(); ++k) {
    const chain::RankSpec& rank = question.platform.ranks[k];
    Seconds time;
    for (int i = k == 0 ? 1 : cut[k - 1] + 1; i <= cut[k]; ++i)
      time += (question.chain.layer(i).forward + question.chain.layer(i).backward) / rank.speed;
    Joules least(std::numeric_limits<double>::infinity());
    std::vector<chain::Clock> clocks = rank.clocks;
    clocks.push_back({.name = "", .time = 1, .power = 1});
    for (const chain::Clock& clock : clocks)
      if (time * clock.time <= period * (1 + 1e-9))
        least = std::min(least, rank.power.busy * clock.power * (time * clock.time) +
                                    rank.power.idle * (period - time * clock.time));
    energy += least;
  }
  return energy;
}

TEST(LeanestCut, HasTheLeastEnergyOfAllCuts) {
  std::mt19937 random(11);
  int found = 0;
  for (int k = 0; k < 200; ++k) {
    const Question question = with_slower_clocks(random);
    const Seconds period =
        ideal_step(question) / question.micro_batches * 0.25 * between(random, 4, 8);
    Joules least(std::numeric_limits<double>::infinity());
    for (Cut cut : every_cut(question.chain.length(), question.stages)) {
      cut.push_back(question.chain.length());
      least = std::min(least, energy_per_period(question, cut, period));
    }
    const std::optional<Cut> cut = leanest_cut(question, period);
    ASSERT_EQ(cut.has_value(), !std::isinf(least.count())) << k;
    if (!cut) continue;
    EXPECT_NEAR(energy_per_period(question, *cut, period).count(), least.count(),
                1e-9 * least.count())
        << k;
    ++found;
  }
  EXPECT_GT(found, 100);
}

// The oracle plans the same with each cut in turn.
TEST(PlanForEnergy, IsNearlyThatOfTheBestOfAllCuts) {
  std::mt19937 random(3);
  double excess = 0, without = 0, worst = 0;
  int count = 0;
  for (int k = 0; k < trials(64); ++k) {
    Question question = with_slower_clocks(random);
    question.micro_batches = 16;
    question.solver = "joint";
    chain::LayerCost& head = question.chain.layers.back();
    head.forward = head.forward * 3;
    head.backward = head.backward * 3;
    const plan::Plan fastest = planned(question);
    const Goal goal{.objective = Objective::kEnergy, .deadline = {.time = fastest.step * 1.05}};
    const auto with = [&](const std::vector<int>& cut) {
      Question fixed = question;
      fixed.cut = cut;
      const Explained found = plan_for(fixed, goal);
      return plan_of(found) == nullptr ? Joules(std::numeric_limits<double>::infinity())
                                       : plan_of(found)->energy;
    };
    Joules least(std::numeric_limits<double>::infinity());
    for (const std::vector<int>& cut : every_cut(question.chain.length(), question.stages))
      least = std::min(least, with(cut));
    const Joules energy = plan_of(plan_for(question, goal))->energy;
    excess += energy / least - 1;
    worst = std::max(worst, energy / least - 1);
    Cut of_fastest = cut_of(fastest);
    of_fastest.pop_back();
    without += with(of_fastest) / least - 1;
    ++count;
  }
  std::cout << "Over the best of all cuts by " << 100 * excess / count << " % in the mean, "
            << 100 * worst << " % at worst; with the cuts of the fastest plans by "
            << 100 * without / count << " %\n";
  EXPECT_LT(excess, 0.5 * without);
}

// The head alone is the slowest stage: however the others share their layers, the step is the same.
TEST(PlanForEnergy, SharesLayersEvenlyWhereThatCostsNoTime) {
  Question question = equal_layers(7, 3, 32, 0);
  chain::LayerCost& head = question.chain.layers.back();
  head.forward = Seconds(4);
  head.backward = Seconds(8);
  question = with_power(question, {.busy = Watts(100), .idle = Watts(20)});
  for (chain::RankSpec& rank : question.platform.ranks) rank.clocks = kClocks;
  const plan::Plan fastest = planned(question);
  ASSERT_NE(cut_of(fastest), (Cut{3, 6, 7}));
  const Goal goal{.objective = Objective::kEnergy, .deadline = {.time = fastest.step * 1.02}};

  const Explained found = plan_for(question, goal);

  EXPECT_EQ(cut_of(*plan_of(found)), (Cut{3, 6, 7}));
  Question fixed = question;
  fixed.cut = std::vector<int>{cut_of(fastest)[0], cut_of(fastest)[1]};
  EXPECT_LT(plan_of(found)->energy, plan_of(plan_for(fixed, goal))->energy * 0.95);
}

TEST(WithClockPerRank, TakesTheFastestOfARanksClocks) {
  Question question = with_power(equal_layers(8, 2, 4, 24), {.busy = Watts(10)});
  for (chain::RankSpec& rank : question.platform.ranks) rank.clocks = kClocks;
  plan::Plan plan = planned(question);
  plan.stages[0].forward_clock = "slower";
  plan.stages[0].backward_clock = "slow";
  plan.stages[1].forward_clock = "slow";

  const plan::Plan one = with_clock_per_rank(question, plan);

  EXPECT_EQ(one.stages[0].forward_clock, "slow");
  EXPECT_EQ(one.stages[0].backward_clock, "slow");
  EXPECT_FALSE(plan::has_clocks(one.stages[1]));
  const auto simulation = simulated(question, one, simulate::Detail::kFigures);
  EXPECT_EQ(one.step, simulation.step);
  EXPECT_EQ(one.energy, simulation.energy.all());
  plan.stages[1].forward_clock = "unknown";
  EXPECT_THAT(support::input_error([&] { with_clock_per_rank(question, plan); }),
              testing::HasSubstr("the plan has the clock 'unknown'"));
}

}  // namespace
}  // namespace trireme::partition
