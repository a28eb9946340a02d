// Questions with known answers, and checks of plans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partition/instances.h"

#include "trireme/partition/planner.h"
#include "trireme/partition/tried.h"
#include "trireme/simulate/validate.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trireme::partition {

inline std::vector<int> last_layers(const plan::Plan& plan) {
  std::vector<int> ends;
  for (const plan::StagePlan& stage : plan.stages) ends.push_back(stage.program.last_layer);
  return ends;
}

inline plan::Plan planned(const Question& question) {
  Answer answer = partition::plan(question);
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&answer))
    ADD_FAILURE() << "infeasible: " << where_and_advice(*infeasible);
  return std::get<plan::Plan>(std::move(answer));
}

/// Equal layers with f = 1, b = 2, outputs of 1 and tapes of 3 bytes.
inline Question equal_layers(int layers, int stages, int micro_batches, std::int64_t memory) {
  Question question;
  question.chain = solve::without_loss(solve::homogeneous(layers));
  question.platform = chain::uniform_platform(stages, Bytes(memory));
  question.stages = stages;
  question.micro_batches = micro_batches;
  question.slots = 0;
  return question;
}

/// Every rank with an offload tier at this rate, in bytes per second; 0: none.
inline Question with_links(Question question, double rate) {
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.host = Bytes(100'000);
    rank.out = rank.in = BytesPerSecond(rate);
  }
  return question;
}

/// The first alternative whose policy begins with this, or nullptr.
inline const plan::Alternative* alternative(const plan::Plan& plan, const std::string& begin) {
  for (const plan::Alternative& other : plan.alternatives)
    if (other.policy.starts_with(begin)) return &other;
  return nullptr;
}

/// Checks every plan: the validator accepts it within its budgets, its predictions are the
/// simulator's, and no alternative is faster.
inline void expect_sound(const Question& question, const plan::Plan& plan) {
  const auto fault =
      simulate::validate(plan::compile(plan, question.chain), setting_of(question, plan));
  EXPECT_FALSE(fault) << simulate::to_text(*fault);
  const auto simulation = simulated(question, plan, simulate::Detail::kSummary);
  EXPECT_EQ(plan.step, simulation.step);
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    if (plan.solver != "madpipe" && !schedule::shares_ranks(plan::placement(plan))) {
      EXPECT_EQ(plan.stages[k].rank, static_cast<int>(k));
    }
    const auto rank = static_cast<std::size_t>(plan.stages[k].rank);
    const Bytes memory = question.platform.ranks[rank].memory;
    EXPECT_EQ(plan.stages[k].predicted.peak, simulation.ranks[rank].peak.size);
    EXPECT_TRUE(memory == Bytes(0) || simulation.ranks[rank].peak.size <= memory);
  }
  for (const plan::Alternative& other : plan.alternatives) {
    if (!other.step) continue;
    EXPECT_LE(plan.step.count(), other.step->count() * (1 + 1e-9)) << other.policy;
  }
}

}  // namespace trireme::partition
