// SPDX-License-Identifier: Apache-2.0
#include "solvers.h"

#include "axis.h"
#include "judge/judge.h"
#include "memory/offload.h"
#include "values/effort.h"

#include "trireme/solve/solve.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace trireme::partition {
namespace {

constexpr const char* kQuick = "joint";
/// Breadth of copy searches where they are to be quick.
constexpr double kQuickBreadth = 0.125;
constexpr double kAmongFastest = 1.005;

bool searches_copies(const std::string& solver) {
  const std::optional<solve::Traits> traits = solve::traits_of(solver);
  return solver == "auto" || (traits && traits->moves && traits->growth == solve::Growth::kTables);
}

bool have_same_plan(const Judged& a, const Judged& b) {
  return a.plan() != nullptr && b.plan() != nullptr && *a.plan() == *b.plan();
}

/// Decisions to solve again with full effort: the best simulated one with and without streamed
/// weights, and with and without offloaded state, if nearly as fast as the best and with a
/// different plan. Other solvers weigh recomputation against offload by other rules. Programs made
/// for other memories than the budgets stay with their solver.
std::vector<Choices> best_of_each_kind(const Scene& scene) {
  std::array<const Judged*, 4> best{};
  for (const Judged& one : scene.log.all()) {
    if (!one.choices.more.empty()) continue;
    const Judged*& kind = best[(one.choices.streamed.empty() ? 0U : 1U) +
                               (one.choices.optimizer_copies > Seconds(0) ? 2U : 0U)];
    if (kind == nullptr || is_better(one, *kind)) kind = &one;
  }
  Seconds least = kAnyTime;
  for (const Judged* const one : best)
    if (one != nullptr) least = std::min(least, one->step());
  std::vector<const Judged*> kept;
  for (const Judged* const one : best) {
    if (one == nullptr || one->step() > least * kAmongFastest) continue;
    const auto is_same = [&](const Judged* other) { return have_same_plan(*one, *other); };
    if (std::none_of(kept.begin(), kept.end(), is_same)) kept.push_back(one);
  }
  std::vector<Choices> choices;
  for (const Judged* const one : kept) choices.push_back(carefully(scene.question, one->choices));
  return choices;
}

std::vector<Choices> moves(const Scene& scene) {
  return has_quick_solvers(scene.question) ? best_of_each_kind(scene) : std::vector<Choices>{};
}

/// Single-stage solvers plan the copies of one micro-batch; `joint` those of all micro-batches.
std::vector<Choices> moves_by_joint(const Scene& scene) {
  if (scene.best.plan() == nullptr || scene.best.step() <= ideal_step(scene.question) * kNearIdeal)
    return {};
  std::vector<Choices> found = best_of_each_kind(scene);
  for (Choices& one : found) one.solver = kQuick;
  return found;
}

}  // namespace

std::string quick_solver(const Question& question) {
  return question.stages > 1 && question.solver == "auto" ? kQuick : question.solver;
}

std::vector<std::string> solvers_to_start_with(const Question& question) {
  std::vector<std::string> solvers{quick_solver(question)};
  if (question.stages == 1 || question.solver != "auto" || question.quick ||
      has_named_schedule(question) || question.chain.length() > kFewLayers || !has_places(question))
    return solvers;
  solvers.emplace_back("adapipe");
  if (!question.cut && question.in_flight.empty() && question.shares_ranks)
    solvers.emplace_back("madpipe");
  return solvers;
}

bool has_quick_solvers(const Question& question) {
  if (question.stages > 1) return question.solver == "auto";
  return question.chain.length() > kFewLayers && searches_copies(question.solver);
}

Choices quickly(const Question& question, Choices choices) {
  choices.solver = quick_solver(question);
  choices.breadth = question.breadth;
  if (question.stages == 1 && has_quick_solvers(question)) choices.breadth *= kQuickBreadth;
  return choices;
}

Choices carefully(const Question& question, Choices choices) {
  choices.solver = question.solver;
  choices.breadth = question.breadth;
  return choices;
}

const Axis kSolvers{.name = "solvers",
                    .without = "quick solvers",
                    .is_open = [](const Question& question) { return !question.quick; },
                    .moves = moves,
                    .is_used = [](const Judged&) { return false; },
                    .most_looks = 1,
                    .most_looks_at_large = 1,
                    .least_gain = 0,
                    .reason = "its program is simulated like any other"};

const Axis kJoint{.name = "copies across micro-batches",
                  .without = "copies of each micro-batch alone",
                  .is_open =
                      [](const Question& question) {
                        return question.stages == 1 && question.solver == "auto" &&
                               question.platform.ranks.front().can_copy();
                      },
                  .moves = moves_by_joint,
                  .is_used = [](const Judged&) { return false; },
                  .most_looks = 1,
                  .most_looks_at_large = 1,
                  .least_gain = 0,
                  .reason = "the simulator counts every copy"};

}  // namespace trireme::partition
