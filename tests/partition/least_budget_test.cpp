// The least budget reported for an infeasible job: with it the planner finds a plan, with a byte
// less none, on every cut and with every number in flight.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "support/trials.h"

#include <gtest/gtest.h>

#include <functional>

namespace trireme::partition {
namespace {

/// Few enough cuts to plan all, and far more than a policy tries.
constexpr Sizes kFewCuts{.least_layers = 3, .most_layers = 8};
constexpr Sizes kManyCuts{
    .least_layers = 8, .most_layers = 13, .least_stages = 3, .most_stages = 5};

/// With equal memory on every rank, retapes that save bytes, and free links.
Question equal_ranks(std::mt19937& random, const Sizes& sizes) {
  Question question = small_question(random, sizes);
  question.platform.default_link = {};
  question.platform.overrides.clear();
  const Bytes memory(between(random, 4, 30));
  for (chain::LayerCost& layer : question.chain.layers) {
    if (between(random, 0, 3) == 0) layer.tape = layer.output;
    if (between(random, 0, 2) > 0) continue;
    layer.retape = layer.again();
    layer.retape->tape -= Bytes(between(random, 0, static_cast<int>(layer.tape.count())));
  }
  for (chain::RankSpec& rank : question.platform.ranks) rank.memory = memory;
  return question;
}

Question with_memory(Question question, Bytes memory) {
  for (chain::RankSpec& rank : question.platform.ranks) rank.memory = memory;
  return question;
}

bool is_planned(const Question& question) {
  const Answer answer = partition::plan(question);
  if (const auto* plan = std::get_if<plan::Plan>(&answer)) {
    const auto fault =
        simulate::validate(plan::compile(*plan, question.chain), setting_of(question, *plan));
    EXPECT_FALSE(fault) << simulate::to_text(*fault);
  }
  return std::holds_alternative<plan::Plan>(answer);
}

bool some_cut_is_planned(Question question) {
  std::vector<int> cut;
  const std::function<bool(int)> extend = [&](int first) {
    if (static_cast<int>(cut.size()) + 1 == question.stages) {
      question.cut = cut;
      return is_planned(question);
    }
    for (int last = first; last < question.chain.length(); ++last) {
      cut.push_back(last);
      const bool found =
          question.chain.length() - last >= question.stages - static_cast<int>(cut.size()) &&
          extend(last + 1);
      cut.pop_back();
      if (found) return true;
    }
    return false;
  };
  return extend(1);
}

class LeastBudget : public testing::TestWithParam<std::string> {
 protected:
  /// Calls `check(question, least)` for infeasible questions.
  void each_shortage(int questions, const Sizes& sizes,
                     const std::function<void(Question, Bytes)>& check) {
    std::mt19937 random(41);
    int shortages = 0;
    for (int trial = 0; trial < questions; ++trial) {
      SCOPED_TRACE(trial);
      Question question = equal_ranks(random, sizes);
      question.solver = GetParam();
      const Answer answer = partition::plan(question);
      const auto* infeasible = std::get_if<plan::Infeasible>(&answer);
      if (infeasible == nullptr) continue;
      ++shortages;
      EXPECT_GT(infeasible->needed, infeasible->available);
      check(std::move(question), infeasible->least_budget);
    }
    EXPECT_GE(shortages, questions / 8);
  }
};

TEST_P(LeastBudget, IsEnoughAndNoByteLessIs) {
  const bool searches = GetParam() == "exhaustive";  // takes minutes for long stages
  each_shortage(trials(100), searches ? kFewCuts : kManyCuts,
                [](const Question& question, Bytes least) {
                  EXPECT_TRUE(has_exact_least_budget(question));
                  EXPECT_TRUE(is_planned(with_memory(question, least)));
                  EXPECT_FALSE(is_planned(with_memory(question, least - Bytes(1))));
                });
}

TEST_P(LeastBudget, IsThatOfTheBestOfAllCuts) {
  each_shortage(40, kFewCuts, [](const Question& question, Bytes least) {
    EXPECT_TRUE(some_cut_is_planned(with_memory(question, least)));
    EXPECT_FALSE(some_cut_is_planned(with_memory(question, least - Bytes(1))));
  });
}

INSTANTIATE_TEST_SUITE_P(All, LeastBudget,
                         testing::Values("auto", "joint", "adapipe", "keep_all", "recompute_all",
                                         "uniform 2", "block 2", "periodic 2", "sqrt", "revolve",
                                         "min_peak", "min_peak sum", "rotor", "capuchin", "pofo",
                                         "exhaustive"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(LeastBudgetOfJoint, IsThatOfTheBestNumbersInFlight) {
  std::mt19937 random(43);
  int fewer = 0;
  for (int trial = 0; trial < 80; ++trial) {
    SCOPED_TRACE(trial);
    Question question = equal_ranks(random, kFewCuts);
    question.solver = "joint";
    question.schedule = "1f1b";
    const Answer answer = partition::plan(question);
    const auto* infeasible = std::get_if<plan::Infeasible>(&answer);
    if (infeasible == nullptr) continue;
    const Question at = with_memory(question, infeasible->least_budget);
    const Question below = with_memory(question, infeasible->least_budget - Bytes(1));
    fewer += is_planned(as_scheduled(at)) ? 0 : 1;
    std::vector<int> counts;
    const std::function<void(int)> extend = [&](int most) {
      if (static_cast<int>(counts.size()) == question.stages) {
        Question asked = below;
        asked.in_flight = counts;
        EXPECT_FALSE(is_planned(asked));
        return;
      }
      for (int count = 1; count <= most; ++count) {
        counts.push_back(count);
        extend(count);
        counts.pop_back();
      }
    };
    extend(question.stages);
  }
  EXPECT_GE(fewer, 5);
}

}  // namespace
}  // namespace trireme::partition
