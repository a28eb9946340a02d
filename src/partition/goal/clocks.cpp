// SPDX-License-Identifier: Apache-2.0
#include "clocks.h"

#include "judge/judge.h"
#include "values/lookup.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// A stage's clock of one kind of pass.
struct Knob {
  std::size_t stage = 0;
  bool is_forward = true;
  std::vector<std::string> names;  ///< from the usual clock, "", to the slowest
  std::size_t at = 0;

  bool is_slowest() const { return at + 1 == names.size(); }
};

/// The clocks by ascending time, without those that take no less energy than a faster one.
std::vector<std::string> worthwhile(std::vector<chain::Clock> clocks) {
  std::stable_sort(clocks.begin(), clocks.end(),
                   [](const chain::Clock& a, const chain::Clock& b) { return a.time < b.time; });
  std::vector<std::string> names{""};
  double least = 1;
  for (const chain::Clock& clock : clocks) {
    if (clock.time * clock.power >= least) continue;
    least = clock.time * clock.power;
    names.push_back(clock.name);
  }
  return names;
}

class ClockSearch {
 public:
  ClockSearch(const Problem& problem, plan::Plan plan, Seconds deadline)
      : problem_(problem),
        deadline_(deadline),
        best_{.step = plan.step, .energy = plan.energy},
        program_(plan::compile(plan, problem.chain)),
        setting_(setting_of(problem, plan)) {
    for (std::size_t k = 0; k < plan.stages.size(); ++k) {
      const std::vector<std::string> names =
          worthwhile(problem.platform.ranks[at(plan.stages[k].rank)].clocks);
      if (names.size() == 1) continue;
      for (const bool is_forward : {true, false})
        knobs_.push_back({.stage = k, .is_forward = is_forward, .names = names});
    }
    plan_ = std::move(plan);
  }

  plan::Plan best() {
    do {
      while (improve()) {
      }
    } while (exchange());
    return plan_;
  }

 private:
  struct Costs {
    Seconds step;
    Joules energy;
  };

  void turn(Knob& knob, std::size_t to) {
    knob.at = to;
    plan::StagePlan& stage = plan_.stages[knob.stage];
    (knob.is_forward ? stage.forward_clock : stage.backward_clock) = knob.names[to];
  }

  /// Costs with the knob at its next slower clock, at which it stays; empty where a rank would be
  /// over its budget.
  std::optional<Costs> slowed(Knob& knob) {
    turn(knob, knob.at + 1);
    return costs();
  }

  std::optional<Costs> costs() {
    setting_.clocks = clocks_of(problem_.platform, plan_);
    const simulate::Simulation now =
        simulate::simulate(program_, setting_, simulate::Detail::kFigures);
    if (!is_within(problem_, now)) return std::nullopt;
    return Costs{.step = now.step, .energy = now.energy.all()};
  }

  bool is_better(const std::optional<Costs>& costs) const {
    return costs && costs->step <= deadline_ && costs->energy < best_.energy;
  }

  /// Knobs that may be turned, by energy saved for time lost.
  std::vector<Knob*> by_worth() {
    std::vector<std::pair<double, Knob*>> worth;
    for (Knob& knob : knobs_) {
      if (knob.is_slowest()) continue;
      const std::optional<Costs> costs = slowed(knob);
      turn(knob, knob.at - 1);
      if (!is_better(costs)) continue;
      const Seconds lost = std::max(costs->step - best_.step, best_.step * kNoTime);
      worth.emplace_back((best_.energy - costs->energy).count() / lost.count(), &knob);
    }
    std::stable_sort(worth.begin(), worth.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<Knob*> knobs;
    for (const auto& [ratio, knob] : worth) knobs.push_back(knob);
    return knobs;
  }

  /// A round: every knob one clock slower where that still helps. Returns whether one did.
  bool improve() {
    bool has_improved = false;
    for (Knob* const knob : by_worth()) {
      const std::optional<Costs> costs = slowed(*knob);
      if (!is_better(costs)) {
        turn(*knob, knob->at - 1);
        continue;
      }
      best_ = *costs;
      has_improved = true;
    }
    return has_improved;
  }

  /// Where no knob can go slower alone: one goes faster, so that others can. Returns whether that
  /// helped.
  bool exchange() {
    return std::any_of(knobs_.begin(), knobs_.end(),
                       [this](Knob& knob) { return knob.at > 0 && has_exchanged(knob); });
  }

  bool has_exchanged(Knob& faster) {
    turn(faster, faster.at - 1);
    for (Knob& knob : knobs_) {
      if (&knob == &faster || knob.is_slowest()) continue;
      const std::optional<Costs> now = slowed(knob);
      if (is_better(now)) {
        best_ = *now;
        return true;
      }
      turn(knob, knob.at - 1);
    }
    turn(faster, faster.at + 1);
    return false;
  }

  /// Time, as a share of a step, below which a slower clock costs nothing.
  static constexpr double kNoTime = 1e-9;

  const Problem& problem_;
  Seconds deadline_;
  Costs best_;
  program::Program program_;  ///< the same at any clock
  simulate::Setting setting_;
  plan::Plan plan_;
  std::vector<Knob> knobs_;
};

}  // namespace

bool has_clocks(const Problem& problem) {
  const auto& ranks = problem.platform.ranks;
  return std::any_of(ranks.begin(), ranks.begin() + problem.stages,
                     [](const chain::RankSpec& rank) { return !rank.clocks.empty(); });
}

plan::Plan with_clock_per_rank(const Problem& problem, plan::Plan plan) {
  clocks_of(problem.platform, plan);
  std::vector<std::string> fastest(at(plan::ranks_of(plan)));
  std::vector<double> least(fastest.size(), std::numeric_limits<double>::infinity());
  const auto look = [&](const plan::StagePlan& stage, const std::string& name) {
    double time = 1;
    for (const chain::Clock& clock : problem.platform.ranks[at(stage.rank)].clocks)
      if (clock.name == name) time = clock.time;
    if (time >= least[at(stage.rank)]) return;
    least[at(stage.rank)] = time;
    fastest[at(stage.rank)] = name;
  };
  for (const plan::StagePlan& stage : plan.stages) {
    look(stage, stage.forward_clock);
    look(stage, stage.backward_clock);
  }
  for (plan::StagePlan& stage : plan.stages)
    stage.forward_clock = stage.backward_clock = fastest[at(stage.rank)];
  plan::Plan usual = plan::at_usual_clocks(plan);
  std::optional<plan::Plan> fits = predicted_again(problem, std::move(plan));
  return fits ? *std::move(fits) : predicted_again(problem, usual).value_or(usual);
}

plan::Plan with_clocks(const Problem& problem, plan::Plan plan, Seconds deadline) {
  if (plan.step > deadline) return plan;
  plan::Plan slowed = ClockSearch(problem, plan, deadline).best();
  std::optional<plan::Plan> fits = predicted_again(problem, std::move(slowed));
  return fits ? *std::move(fits) : plan;
}

}  // namespace trireme::partition
