// Parts of the search: line searches, the log, lower bounds; and the reasons for a plan.
// SPDX-License-Identifier: Apache-2.0
#include "axes/axis.h"
#include "partition/planned.h"
#include "partition/weighed.h"
#include "support/trials.h"

#include "trireme/io/file.h"

#include <gmock/gmock.h>

#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// An empty plan with this step, or none.
Judged judged(Choices choices, std::optional<double> step) {
  if (!step) return {.choices = std::move(choices), .answer = plan::Infeasible{}};
  plan::Plan plan;
  plan.step = Seconds(*step);
  return {.choices = std::move(choices), .answer = std::move(plan)};
}

/// Result of a line search along the copy time of state, 0 to 1000 s, if a step at x takes f(x);
/// and the points it tried.
struct Walk {
  double best = 0;
  std::vector<double> looks;
};
Walk walk(const std::function<std::optional<double>(double)>& f, int most_looks) {
  const Question question = equal_layers(4, 1, 1, 0);
  Log log;
  const Line line{.low = 0,
                  .high = 1000,
                  .finest = 1,
                  .at =
                      [](double x) {
                        Choices choices;
                        choices.optimizer_copies = Seconds(x);
                        return choices;
                      },
                  .asked = [](const Choices& choices) { return choices.optimizer_copies.count(); }};
  const Judged* best = &log.add(judged(line.at(500), f(500)));
  Walk walk{.best = 500, .looks = {500}};
  for (int look = 0; look < most_looks; ++look) {
    const std::vector<Choices> moves =
        along(line, {.question = question, .log = log, .best = *best});
    if (moves.empty()) break;
    for (const Choices& one : moves) {
      walk.looks.push_back(line.asked(one));
      const Judged& added = log.add(judged(one, f(walk.looks.back())));
      if (is_better(added, *best)) best = &added;
    }
  }
  walk.best = line.asked(best->choices);
  return walk;
}

// With 8 micro-batches of gpt-7b in 8 GiB steps took 14.3, 9.66 and 7.25 s in groups of 1, 2 and 4,
// and 6.18 s in one of 8, which was not tried since 2 are much slower than 4.
TEST(GroupSizes, AreLookedAtAsLongAsLargerOnesAreFaster) {
  Question question =
      with_frozen(with_links(equal_layers(8, 1, 8, 0), 1), std::vector<std::int64_t>(8, 10));
  question.group = std::nullopt;
  Choices choices{.streamed = all_to_stream(question.chain)};
  Log log;
  const Judged* best = nullptr;
  for (const auto& [group, step] : {std::pair(1, 14.3), {2, 9.66}, {4, 7.25}}) {
    choices.group = group;
    Judged one = judged(choices, step);
    std::get<plan::Plan>(one.answer).recompute = Seconds(1);
    best = &log.add(std::move(one));
  }

  const std::vector<Choices> moves =
      kGroups.moves({.question = question, .log = log, .best = *best});

  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(moves.front().group, 8);
}

// The search did not end: half of an infinite gap is infinite, and its middle was already in the
// log.
TEST(Line, EndsWhereItsInfiniteEndDoesNotFit) {
  const Question question = equal_layers(4, 1, 1, 0);
  const auto at = [](double x) {
    Choices choices;
    choices.optimizer_copies = Seconds(x);
    return choices;
  };
  const Line line{.low = 0,
                  .high = kAnyTime.count(),
                  .finest = 1,
                  .at = at,
                  .asked = [](const Choices& choices) { return choices.optimizer_copies.count(); }};
  Log log;
  const Judged& best = log.add(judged(at(0), 5.0));
  log.add(judged(at(kAnyTime.count()), std::nullopt));

  EXPECT_TRUE(along(line, {.question = question, .log = log, .best = best}).empty());
}

TEST(Line, LooksAtBothEndsAndThenIntoTheWiderGapBesideTheFastest) {
  // The lower one of equal gaps is bisected first.
  const Walk looked = walk([](double x) { return std::abs(x - 300); }, 4);
  EXPECT_THAT(looked.looks, testing::ElementsAre(500, 0, 1000, 250, 125, 375));
}

TEST(Line, ComesWithinItsFinestGapOfTheLeastOfAFunctionWithOneValley) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const double least = std::uniform_real_distribution(0.0, 1000.0)(random);
    const double left = between(random, 1, 9), right = between(random, 1, 9);
    const Walk found =
        walk([&](double x) { return x < least ? left * (least - x) : right * (x - least); }, 100);
    EXPECT_LE(std::abs(found.best - least), 1) << "trial " << trial;
  }
}

TEST(Line, FindsTheOnlyPartThatFits) {
  const Walk found = walk([](double x) { return x >= 400 ? std::optional(x) : std::nullopt; }, 100);
  EXPECT_LE(found.best, 401);
  EXPECT_GE(found.best, 400);
}

TEST(Line, EndsWhereNothingFits) {
  EXPECT_EQ(walk([](double) { return std::nullopt; }, 100).looks.size(), 3U);
}

TEST(Log, KnowsWhatWasJudgedAndWhatNeedNotBe) {
  Log log;
  Choices one, two, three;
  two.group = 2;
  three.group = 3;
  log.add(judged(one, 5));
  log.pass_over(two);
  EXPECT_EQ(log.find(one)->step(), Seconds(5));
  EXPECT_EQ(log.find(two), nullptr);
  EXPECT_TRUE(log.is_settled(one));
  EXPECT_TRUE(log.is_settled(two));
  EXPECT_FALSE(log.is_settled(three));
}

TEST(Log, PrefersPlansThenStepsThenLittleThatLacks) {
  plan::Infeasible much, little;
  much.least_budget = Bytes(9);
  little.least_budget = Bytes(8);
  const Judged fast = judged({}, 1), slow = judged({}, 2);
  const Judged lacks_much{.choices = {}, .answer = much};
  const Judged lacks_little{.choices = {}, .answer = little};
  EXPECT_TRUE(is_better(fast, slow));
  EXPECT_FALSE(is_better(slow, fast));
  EXPECT_TRUE(is_better(slow, lacks_little));
  EXPECT_TRUE(is_better(lacks_little, lacks_much));
  EXPECT_FALSE(is_better(fast, fast));
}

TEST(Axes, HaveNamesOfTheirOwnAndReasonsForTheirThresholds) {
  std::set<std::string_view> names;
  for (const Axis* const axis : axes().all()) {
    EXPECT_TRUE(names.insert(axis->name).second) << axis->name;
    EXPECT_FALSE(axis->without.empty());
    EXPECT_FALSE(axis->reason.empty());
  }
}

// Decisions that a bound rules out are never simulated, so no bound may exceed a simulated step.
TEST(Axes, HaveBoundsThatNoJudgedPlanIsBelow) {
  std::mt19937 random(3);
  int bounded = 0;
  for (int trial = 0; trial < trials(100); ++trial) {
    Question question = small_question_with_weights(random, {.least_layers = 12,
                                                             .most_layers = 16,
                                                             .least_stages = 1,
                                                             .most_stages = 2,
                                                             .most_micro_batches = 12});
    question.streamed = all_to_stream(question.chain);
    question.weights_at_once = between(random, 2, 3);
    question.solver = "rotor";
    const Answer answer = partition::plan(question);
    const auto* const plan = std::get_if<plan::Plan>(&answer);
    if (plan == nullptr) continue;
    Choices choices = plainest(question);
    choices.streamed = streamed(*plan);
    choices.weights_at_once = plan->weights_at_once;
    choices.group = plan->group;
    for (const Axis* const axis : axes().all()) {
      if (axis->bound == nullptr) continue;
      const Seconds bound = axis->bound(question, Log(), choices);
      EXPECT_LE(bound.count(), plan->step.count() * (1 + 1e-9)) << "trial " << trial;
      bounded += bound > Seconds(0) ? 1 : 0;
    }
  }
  EXPECT_GT(bounded, trials(100) / 10);
}

/// Eight layers on two ranks, whose forward, gradient of the input and gradient of the weights take
/// equally long.
Question thirds() {
  Question question = equal_layers(8, 2, 4, 0);
  for (chain::LayerCost& layer : question.chain.layers)
    layer.split = {Seconds(1), Bytes(2), layer.backward_transient + Bytes(2), Bytes(1)};
  return question;
}

const Reasons::OfAxis& row(const Reasons& reasons, const std::string& name) {
  for (const Reasons::OfAxis& one : reasons.axes)
    if (one.name == name) return one;
  throw std::out_of_range(name);
}

TEST(Reasons, HaveTheStepWithoutAnAxisThatThePlanUses) {
  const Question question = thirds();
  Question whole = question;
  whole.splits_backward = false;
  const Explained explained = explained_plan(question);
  const plan::Plan& plan = std::get<plan::Plan>(explained.answer);
  EXPECT_EQ(plan::to_json(plan), plan::to_json(planned(question)));
  const Reasons::OfAxis& split = row(explained.reasons, "split backward");
  EXPECT_TRUE(split.is_open);
  ASSERT_TRUE(split.is_used);
  ASSERT_TRUE(split.without);
  EXPECT_EQ(split.without->policy, "whole backwards");
  EXPECT_EQ(split.without->step, planned(whole).step);
  EXPECT_GT(*split.without->step, plan.step);

  const Explained fixed = explained_plan(whole);
  EXPECT_FALSE(row(fixed.reasons, "split backward").is_open);
  EXPECT_FALSE(row(fixed.reasons, "split backward").is_used);
  EXPECT_FALSE(row(fixed.reasons, "split backward").without);
}

TEST(Reasons, HaveEveryDecisionOnceAndNoneThatIsFaster) {
  std::mt19937 random(5);
  int plans = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const Question question = small_question_with_weights(random, {.least_stages = 1});
    const Explained explained = explained_plan(question);
    const auto* const plan = std::get_if<plan::Plan>(&explained.answer);
    const std::vector<plan::Alternative>& judged = explained.reasons.judged;
    ASSERT_FALSE(judged.empty());
    EXPECT_LE(judged.size(), 400U + 8);
    std::optional<Seconds> least;
    for (const plan::Alternative& one : judged)
      if (one.step && (!least || *one.step < *least)) least = one.step;
    EXPECT_EQ(least.has_value(), plan != nullptr);
    if (!plan) continue;
    ++plans;
    // The answer may forgo gains below an axis's threshold.
    EXPECT_LE(plan->step.count(), least->count() * 1.0101);
    EXPECT_GE(plan->step.count(), least->count());
  }
  EXPECT_GT(plans, 10);
}

TEST(Reasons, KeepToTheirEffort) {
  std::mt19937 random(7);
  Question question = small_question_with_weights(random, {.least_layers = 6, .least_stages = 1});
  question.group = std::nullopt;
  question.updates = std::nullopt;
  question.optimizer_copies = std::nullopt;
  question.decisions = 5;
  const std::size_t judged = explained_plan(question).reasons.judged.size();
  EXPECT_LE(judged, 5U + 8) << "a few more where several are judged at once";
}

// Whoever adds an axis says in the pages what it does.
TEST(Axes, HaveARowInTheTableAndASectionOfTheirOwn) {
  const std::string docs = std::string(TRIREME_SOURCE_DIR) + "/docs/";
  const std::string table = io::read_file(docs + "planner.md");
  const std::string sections = io::read_file(docs + "planner-axes.md");
  ASSERT_EQ(axes().all().size(), 11U);
  for (const Axis* const axis : axes().all()) {
    std::string title(axis->name);
    title.front() = static_cast<char>(std::toupper(title.front()));
    EXPECT_THAT(sections, testing::HasSubstr("\n## " + title + "\n"));
    const std::string row = "| " + std::string(axis->name) + " | ";
    ASSERT_THAT(table, testing::HasSubstr(row));
    const std::string rest = table.substr(table.find(row) + row.size());
    EXPECT_THAT(rest.substr(0, rest.find('\n')),
                testing::EndsWith("| " + std::string(axis->reason) + " |"));
  }
}

}  // namespace
}  // namespace trireme::partition
