// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/tried.h"

#include "answers.h"
#include "stage/stage_policy.h"

#include "trireme/core/error.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trireme::partition {
namespace {

/// Layers up to which tables are instant, too.
constexpr int kInstantLayers = 200;
/// Layers beyond which they take minutes.
constexpr int kManyLayers = 1000;

using solve::Growth;

/// Solvers whose traits are `wanted`, without those that offload where the rank cannot.
template <class Wanted>
std::vector<std::string> solvers_with(const Question& question, Wanted&& wanted) {
  const bool can_move = question.platform.ranks.front().can_copy();
  std::vector<std::string> names = solve::solver_names();
  std::erase_if(names, [&](const std::string& name) {
    const solve::Traits traits = solve::traits_of(name).value();
    return (traits.moves && !can_move) || !wanted(traits);
  });
  return names;
}

Bytes moved(const plan::Plan& plan) {
  Bytes sum;
  for (const plan::StagePlan& stage : plan.stages) sum += stage.predicted.offloaded;
  return sum;
}

}  // namespace

Tried try_to(const std::string& solver, const std::function<Answer()>& solve) {
  Tried tried{.solver = solver, .answer = {}, .refused = {}};
  try {
    Answer found = solve();
    std::visit([&](auto& answer) { tried.answer = std::move(answer); }, found);
  } catch (const InputError& error) {
    tried.refused = error.what();
  }
  return tried;
}

Tried try_solver(const Question& question, const std::string& solver) {
  return try_to(solver, [&] { return answer_alone(question, solver); });
}

std::vector<std::string> quick_solvers(const Question& question) {
  const bool is_long = question.chain.length() > kManyLayers;
  const Growth most = is_long ? Growth::kSquare : Growth::kTables;
  return solvers_with(question, [&](const solve::Traits& it) { return it.growth <= most; });
}

std::vector<std::string> slow_solvers(const Question& question) {
  if (question.chain.length() <= kManyLayers) return {};
  return solvers_with(question,
                      [](const solve::Traits& it) { return it.growth == Growth::kTables; });
}

std::vector<std::string> instant_solvers(const Question& question) {
  const bool is_short = question.chain.length() <= kInstantLayers;
  return solvers_with(question, [&](const solve::Traits& it) {
    return it.growth <= (is_short && !it.moves ? Growth::kTables : Growth::kSquare);
  });
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
    const plan::Infeasible* const lacks = one.infeasible();
    if (lacks == nullptr) continue;
    if (best == nullptr || lacks->least_budget < best->infeasible()->least_budget) best = &one;
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
    if (const plan::Plan* plan = one.plan()) others.push_back(as_alternative(one.solver, *plan));
    if (const auto* lacks = one.infeasible()) others.push_back(as_alternative(one.solver, *lacks));
  }
  return others;
}

}  // namespace trireme::partition
