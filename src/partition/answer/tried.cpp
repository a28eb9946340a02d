// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/tried.h"

#include "one_stage.h"
#include "stage/stage_policy.h"

#include "trireme/core/error.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trireme::partition {
namespace {

using solve::Growth;

Growth growth_of(const std::string& solver);
bool moves(const std::string& solver);
bool can_move(const Question& question);
/// Layers up to which tables take no time either.
constexpr int kFewLayers = 200;
/// Layers beyond which they take minutes.
constexpr int kManyLayers = 1000;

Bytes moved(const plan::Plan& plan);

}  // namespace

Tried try_to(const std::string& solver, const std::function<Answer()>& solve) {
  Tried tried{.solver = solver, .answer = {}, .refused = {}};
  try {
    Answer found = solve();
    if (auto* plan = std::get_if<plan::Plan>(&found)) tried.answer = std::move(*plan);
    if (auto* infeasible = std::get_if<plan::Infeasible>(&found))
      tried.answer = std::move(*infeasible);
  } catch (const InputError& error) {
    tried.refused = error.what();
  }
  return tried;
}

Tried try_solver(const Question& question, const std::string& solver) {
  return try_to(solver, [&] { return answer_alone(question, solver); });
}

std::vector<std::string> quick_solvers(const Question& question) {
  std::vector<std::string> names = solve::solver_names();
  std::erase_if(names, [&](const std::string& name) {
    return growth_of(name) == Growth::kSearch || (moves(name) && !can_move(question));
  });
  if (question.chain.length() > kManyLayers)
    std::erase_if(names, [](const std::string& name) { return growth_of(name) > Growth::kSquare; });
  return names;
}

std::vector<std::string> slow_solvers(const Question& question) {
  std::vector<std::string> names = solve::solver_names();
  std::erase_if(names, [&](const std::string& name) {
    return growth_of(name) != Growth::kTables || (moves(name) && !can_move(question));
  });
  if (question.chain.length() <= kManyLayers) names.clear();
  return names;
}

std::vector<std::string> instant_solvers(const Question& question) {
  std::vector<std::string> names = solve::solver_names();
  std::erase_if(names, [&](const std::string& name) {
    if (moves(name)) return growth_of(name) > Growth::kSquare || !can_move(question);
    return growth_of(name) == Growth::kSearch ||
           (growth_of(name) == Growth::kTables && question.chain.length() > kFewLayers);
  });
  return names;
}

const Tried* fastest(const std::vector<Tried>& tried) {
  Seconds least(std::numeric_limits<double>::infinity());
  for (const Tried& one : tried) {
    if (one.plan() != nullptr) least = std::min(least, one.plan()->step);
  }
  const Tried* best = nullptr;
  for (const Tried& one : tried) {
    if (one.plan() == nullptr || one.plan()->step > least * (1 + kGain)) continue;
    if (best == nullptr || moved(*one.plan()) < moved(*best->plan())) best = &one;
  }
  return best;
}

const Tried* leanest(const std::vector<Tried>& tried) {
  const Tried* best = nullptr;
  for (const Tried& one : tried) {
    const plan::Infeasible* infeasible = one.infeasible();
    if (infeasible != nullptr &&
        (best == nullptr || infeasible->least_budget < best->infeasible()->least_budget))
      best = &one;
  }
  return best;
}

plan::Alternative as_alternative(const std::string& policy, const Answer& answer) {
  plan::Alternative other{.policy = policy, .step = {}, .infeasible = {}};
  if (const auto* const plan = std::get_if<plan::Plan>(&answer))
    other.step = plan->step;
  else
    other.infeasible = std::get<plan::Infeasible>(answer);
  return other;
}

std::vector<plan::Alternative> alternatives(const std::vector<Tried>& tried, const Tried& chosen) {
  std::vector<plan::Alternative> others;
  for (const Tried& one : tried) {
    if (&one == &chosen) continue;
    if (const plan::Plan* plan = one.plan())
      others.push_back({.policy = one.solver, .step = plan->step, .infeasible = {}});
    if (const plan::Infeasible* infeasible = one.infeasible())
      others.push_back({.policy = one.solver, .step = {}, .infeasible = *infeasible});
  }
  return others;
}

namespace {

Growth growth_of(const std::string& solver) {
  return solve::traits_of(solver).value().growth;
}

bool moves(const std::string& solver) {
  return solve::traits_of(solver).value().moves;
}

bool can_move(const Question& question) {
  const chain::RankSpec& rank = question.platform.ranks.front();
  return rank.can_copy();
}

Bytes moved(const plan::Plan& plan) {
  Bytes sum;
  for (const plan::StagePlan& stage : plan.stages) sum += stage.predicted.offloaded;
  return sum;
}

}  // namespace
}  // namespace trireme::partition
