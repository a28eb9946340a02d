// MadPipe (one rank with several stages) against closed forms, every allocation, and the simulator.
// SPDX-License-Identifier: Apache-2.0
#include "placement/madpipe.h"

#include "instances.h"
#include "judge/judge.h"
#include "support/input_error.h"
#include "support/trials.h"

#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"
#include "trireme/simulate/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace trireme::partition {
namespace {

/// Layers with forward and backward of these times, outputs and tapes of 1 byte.
chain::Chain chain_of(const std::vector<double>& times) {
  chain::Chain chain{.name = "uneven", .input = Bytes(1), .layers = {}};
  for (const double time : times) chain.layers.push_back(solve::layer(time, time, 1, 1));
  return chain;
}

Question question_of(const std::vector<double>& times, int ranks, int micro_batches) {
  Question question;
  question.chain = chain_of(times);
  question.stages = ranks;
  question.micro_batches = micro_batches;
  question.platform = chain::uniform_platform(ranks, Bytes(0));
  question.solver = "madpipe";
  return question;
}

plan::Plan plan_of(const Question& question) {
  return std::get<plan::Plan>(plan(question));
}

const plan::Alternative* named(const plan::Plan& plan, const std::string& policy) {
  for (const plan::Alternative& other : plan.alternatives)
    if (other.policy == policy) return &other;
  return nullptr;
}

std::vector<int> ranks_of_stages(const plan::Plan& plan) {
  std::vector<int> ranks;
  for (const plan::StagePlan& stage : plan.stages) ranks.push_back(stage.rank);
  return ranks;
}

// Forward and backward of layers take 2, 4, 4, 2 in all. Three contiguous stages: one of them has
// two layers, at least 6 for each micro-batch. With layers 1 and 4 on one rank every rank has 4.
TEST(Madpipe, IsFasterThanEveryContiguousCutOfUnevenLayers) {
  const Question question = question_of({1, 2, 2, 1}, 3, 12);

  const plan::Plan plan = plan_of(question);

  EXPECT_EQ(ranks_of_stages(plan), (std::vector<int>{0, 1, 2, 0}));
  EXPECT_LT(plan.step.count(), 6 * 12);
  // 4 for each micro-batch on the busiest rank, and its first cannot begin before the forward of
  // layer 1, nor end before its backward.
  EXPECT_GE(plan.step.count(), 4 * 12 + 2);
  ASSERT_NE(named(plan, "joint, best cut"), nullptr);
  EXPECT_GE(named(plan, "joint, best cut")->step->count(), 6 * 12);
  EXPECT_EQ(plan.solver, "madpipe");
}

TEST(Madpipe, IsChosenByAutoWhereItIsFaster) {
  Question question = question_of({1, 2, 2, 1}, 3, 12);
  question.platform.default_link.rate = BytesPerSecond(100);
  const double step = plan_of(question).step.count();
  question.solver = "auto";

  const plan::Plan plan = plan_of(question);

  EXPECT_EQ(plan.solver, "madpipe");
  EXPECT_EQ(plan.step.count(), step);
}

// A user who names 1f1b or gpipe asks for one chunk on every rank.
TEST(Madpipe, IsNotChosenByAutoForAScheduleByName) {
  for (const std::string schedule : {"1f1b", "gpipe"}) {
    Question question = question_of({1, 2, 2, 1}, 3, 12);
    question.platform.default_link.rate = BytesPerSecond(100);
    question.solver = "auto";
    set_schedule(question, schedule);

    EXPECT_EQ(ranks_of_stages(plan_of(question)), (std::vector<int>{0, 1, 2})) << schedule;
  }
}

// Layers 1 and 4 on one rank are as long as the others; contiguous stages are 1.9 % slower. That is
// less than two stages of a rank lose by waiting for one another.
TEST(Madpipe, IsNotChosenByAutoWhereItGainsLessThanAFiftieth) {
  Question question = question_of({20, 23, 20, 3}, 3, 12);
  question.platform.default_link.rate = BytesPerSecond(1000);
  const plan::Plan shared = plan_of(question);
  question.solver = "auto";

  const plan::Plan alone = plan_of(question);

  EXPECT_EQ(ranks_of_stages(shared), (std::vector<int>{0, 1, 2, 0}));
  EXPECT_LT(shared.step, alone.step);
  EXPECT_GT(shared.step * 1.02, alone.step);
  EXPECT_EQ(ranks_of_stages(alone), (std::vector<int>{0, 1, 2}));
}

TEST(Madpipe, IsListedByAutoAndNoSlowerThanJointWhereContiguousStagesAreBest) {
  Question question = question_of({1, 1}, 2, 1);
  question.platform.default_link.rate = BytesPerSecond(100);
  question.solver = "auto";

  const plan::Plan plan = plan_of(question);

  ASSERT_NE(named(plan, "madpipe"), nullptr);
  EXPECT_EQ(named(plan, "madpipe")->step, plan.step);
  EXPECT_EQ(ranks_of_stages(plan), (std::vector<int>{0, 1}));
}

// With free links more stages only shorten fill and drain; the cost of their messages is unknown.
TEST(Madpipe, IsNotAskedByAutoWhereLinksAreNotKnown) {
  Question question = question_of({1, 2, 2, 1}, 3, 12);
  question.solver = "auto";

  const plan::Plan plan = plan_of(question);

  EXPECT_EQ(named(plan, "madpipe"), nullptr);
  EXPECT_EQ(ranks_of_stages(plan), (std::vector<int>{0, 1, 2}));
}

TEST(Madpipe, HasRoomForItsStagesTogether) {
  // Every layer has 10 static bytes. Two layers on one rank leave little.
  Question question = question_of({1, 2, 2, 1}, 3, 12);
  for (chain::LayerCost& layer : question.chain.layers) layer.parameters = Bytes(10);
  for (chain::RankSpec& rank : question.platform.ranks) rank.memory = Bytes(40);
  const plan::Plan roomy = plan_of(question);
  EXPECT_EQ(roomy.stages.size(), 4U);
  // A rank that has room for one of them only.
  for (chain::RankSpec& rank : question.platform.ranks) rank.memory = Bytes(19);
  const Answer tight = plan(question);
  const auto* const none = std::get_if<plan::Infeasible>(&tight);
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(none->available, Bytes(19));
}

TEST(Madpipe, LeavesCutAndNumbersInFlightToItself) {
  Question question = question_of({1, 2, 1}, 2, 2);
  question.cut = std::vector<int>{1};
  EXPECT_EQ(support::input_error([&] { plan(question); }),
            "solver 'madpipe': chooses how many stages there are and between which layers they "
            "end; leave cut and in_flight to it, or use 'joint'");
}

/// The least simulated step over all allocations, programs that keep everything, and all numbers in
/// flight that do not grow from stage to stage.
double least_of_all(const Question& question) {
  double least = kNever.count();
  const StageRoom room(question);
  std::set<Allocation> all;
  for (int special = 0; special < question.stages; ++special) {
    for (Allocation& one : every_allocation(question.chain.length(), question.stages, special))
      all.insert(std::move(one));
  }
  for (const Allocation& allocation : all) {
    std::vector<program::StageProgram> programs;
    schedule::ChunkTimes times;
    for (int k = 0; k < allocation.stages(); ++k) {
      programs.push_back(program::keep_all(allocation.first(k), allocation.last(k)));
      const StageNeeds needs = prepared(question.chain, programs.back()).needs;
      const double speed = room.speed(allocation.rank(k));
      times.forward.push_back(needs.forward.count() / speed);
      times.backward.push_back(needs.backward.count() / speed);
      if (k + 1 == allocation.stages()) continue;
      const chain::LinkSpec link =
          question.platform.link(allocation.rank(k), allocation.rank(k + 1));
      times.message.push_back(link.time(question.chain.output(allocation.last(k))).count());
    }
    std::function<void(std::vector<int>)> extend = [&](const std::vector<int>& counts) {
      if (counts.size() < allocation.ends.size()) {
        const int most = counts.empty() ? question.micro_batches : counts.back();
        for (int count = 1; count <= most; ++count) {
          std::vector<int> longer = counts;
          longer.push_back(count);
          extend(longer);
        }
        return;
      }
      const schedule::PlacedOrder placed = schedule::placed_order(
          schedule::one_f_one_b_with(counts, question.micro_batches), allocation.ranks, &times);
      const auto result =
          judged(question, "oracle", programs, {.ranks = allocation.ranks, .order = placed.order});
      if (result) least = std::min(least, result->plan.step.count());
    };
    extend({});
  }
  return least;
}

// Ranks of speeds 3, 1, 3: with the last as the special one the others stand as 3, 1, with the
// first as 1, 3. So either end is tried, and the plan is as good as on 3, 3, 1, where the first can
// leave 3, 1 too.
TEST(Madpipe, TriesAlikeRanksThatAreNoNeighbours) {
  std::mt19937 random(35);
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE(trial);
    std::vector<double> times;
    for (int i = between(random, 4, 6); i > 0; --i) times.push_back(between(random, 1, 8));
    const auto least = [&](const std::vector<double>& speeds) {
      Question question = question_of(times, 3, 12);
      for (std::size_t k = 0; k < 3; ++k) question.platform.ranks[k].speed = speeds[k];
      return plan_of(question).step.count();
    };
    EXPECT_LE(least({3, 1, 3}), least({3, 3, 1}) * (1 + 1e-9));
  }
}

TEST(Madpipe, IsTheBestOfAllAllocationsAndNumbersInFlightInMostCases) {
  std::mt19937 random(5);
  int equal = 0, instances = 0;
  for (int i = 0; i < 60; ++i) {
    Question question =
        small_question(random, {.least_layers = 3, .most_layers = 5, .most_micro_batches = 4});
    question.schedule = "1f1b";
    question.solver = "madpipe";
    for (chain::RankSpec& rank : question.platform.ranks) rank.memory = Bytes(0);
    const double least = least_of_all(question);

    const double step = plan_of(question).step.count();

    EXPECT_GE(step, least * (1 - 1e-9)) << i;
    EXPECT_LE(step, least * 1.25) << i;
    equal += step <= least * (1 + 1e-9) ? 1 : 0;
    ++instances;
  }
  RecordProperty("equal", equal);
  EXPECT_GE(equal, instances * 85 / 100);
}

TEST(Madpipe, KeepsEveryBudgetAndIsNeverSlowerThanJoint) {
  std::mt19937 random(17);
  int plans = 0, several = 0;
  for (int i = 0; i < trials(330, 0.25); ++i) {
    Question question = small_question(
        random, {.least_layers = 3, .most_layers = 7, .most_stages = 4, .most_micro_batches = 8});
    question.solver = "madpipe";
    const Answer answer = plan(question);
    const auto* const found = std::get_if<plan::Plan>(&answer);
    if (found == nullptr) continue;
    ++plans;
    several += found->stages.size() > static_cast<std::size_t>(question.stages) ? 1 : 0;
    const auto simulation = simulated(question, *found, simulate::Detail::kSummary);
    EXPECT_NEAR(simulation.step.count(), found->step.count(), 1e-9 * found->step.count());
    for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank)
      EXPECT_LE(simulation.ranks[rank].peak.size, question.platform.ranks[rank].memory) << i;
    const auto fault =
        simulate::validate(plan::compile(*found, question.chain), setting_of(question, *found));
    EXPECT_FALSE(fault) << i << ": " << simulate::to_text(*fault);
    for (const plan::Alternative& other : found->alternatives) {
      if (other.step) {
        EXPECT_LE(found->step.count(), other.step->count() * (1 + 1e-9)) << i;
      }
    }
    EXPECT_EQ(plan::read_plan(io::parse(plan::to_json(*found), "p.json")), *found) << i;
  }
  EXPECT_GT(plans, trials(200, 0.25));
  EXPECT_GT(several, trials(30, 0.25));
}

TEST(Madpipe, PlanWhoseTurnsWaitInACircleIsRefused) {
  const Question question = question_of({1, 2, 1}, 2, 2);
  plan::Plan plan = plan_of(question);
  ASSERT_EQ(ranks_of_stages(plan), (std::vector<int>{0, 1, 0}));
  // The last stage before the first, whose outputs it waits for.
  plan.order = {schedule::parse_passes("(F2 B2)*2 F0*2 B0*2", 99),
                schedule::parse_passes("F1*2 B1*2", 99)};

  const auto fault =
      simulate::validate(plan::compile(plan, question.chain), setting_of(question, plan));

  ASSERT_TRUE(fault);
  EXPECT_NE(simulate::to_text(*fault).find("wait for one another in a circle"), std::string::npos)
      << simulate::to_text(*fault);
}

TEST(Allocations, AreAsManyAsCounted) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int layers = ranks; layers <= 7; ++layers) {
      for (int special = 0; special < ranks; ++special) {
        const std::vector<Allocation> all = every_allocation(layers, ranks, special);
        EXPECT_EQ(static_cast<double>(all.size()), count_allocations(layers, ranks));
        EXPECT_EQ(std::set<Allocation>(all.begin(), all.end()).size(), all.size());
      }
    }
  }
}

// Without pruning nearly all partial allocations are dead ends: minutes for these few.
TEST(Allocations, OfNearlyAsManyRanksAsLayersAreListedDirectly) {
  EXPECT_EQ(static_cast<double>(every_allocation(26, 25, 0).size()), count_allocations(26, 25));
}

/// The heaviest rank's time for one micro-batch without recomputation.
Seconds heaviest(const StageRoom& room, const Allocation& allocation) {
  std::vector<Seconds> loads(static_cast<std::size_t>(room.stages()));
  for (int k = 0; k < allocation.stages(); ++k)
    loads[static_cast<std::size_t>(allocation.rank(k))] +=
        room.work(allocation.rank(k), allocation.layers(k));
  return *std::max_element(loads.begin(), loads.end());
}

// With free links and no budgets the least period is that of the lightest heaviest rank.
TEST(AllocationSearch, FindsTheLeastPeriodOfAllAllocations) {
  std::mt19937 random(23);
  for (int i = 0; i < 200; ++i) {
    Question question = small_question(
        random, {.least_layers = 3, .most_layers = 8, .most_stages = 4, .most_micro_batches = 4});
    for (chain::RankSpec& rank : question.platform.ranks) rank.memory = Bytes(0);
    question.platform.default_link = {};
    question.platform.overrides.clear();
    const StageRoom room(question);
    const auto policy = policy_named(question, "joint");
    StageOptions options(room, *policy, 6);
    const int special = between(random, 0, question.stages - 1);
    Seconds least = kNever;
    for (const Allocation& one :
         every_allocation(question.chain.length(), question.stages, special))
      least = std::min(least, heaviest(room, one));

    const std::vector<Allocation> found =
        allocations_within(room, options, special, /*most_labels=*/12, least);

    ASSERT_FALSE(found.empty()) << i;
    for (const Allocation& one : found) EXPECT_LE(heaviest(room, one), least * (1 + 1e-6)) << i;
    EXPECT_TRUE(allocations_within(room, options, special, 12, least * (1 - 1e-6)).empty()) << i;
  }
}

}  // namespace
}  // namespace trireme::partition
