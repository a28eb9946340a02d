// Single-stage solvers as stage policies. They know one budget, so it is lowered until (w - 1)
// times the kept bytes of their program plus its peak fits: the baseline of using such a solver
// unchanged.
// SPDX-License-Identifier: Apache-2.0
#include "stage_policy.h"
#include "sub_chains.h"
#include "values/lookup.h"

#include "trireme/core/error.h"
#include "trireme/program/generate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

/// Budgets tried between the most and the least possible.
constexpr int kTries = 10;

class SolverPolicy final : public StagePolicy {
 public:
  SolverPolicy(const Question& question, std::string solver)
      : chain_(question.chain),
        slots_(question.slots),
        breadth_(question.breadth),
        solver_(std::move(solver)),
        alike_(question.chain) {
    solve::solve(solver_, problem({}, Bytes(1)));  // throws for a name that it cannot read
  }

  Seconds time(const StageQuestion& question) override {
    const Found& found = of(question);
    return found ? found->time : kNever;
  }
  std::optional<program::StageProgram> program(const StageQuestion& question) override {
    const Found& found = of(question);
    if (!found) return std::nullopt;
    return program::moved_to(found->program, question.layers.first);
  }
  Bytes least_memory(chain::LayerRange layers, int in_flight) override {
    const Found& lean = leanest({.layers = layers});
    return lean ? memory_of(*lean, in_flight) : kUnlimited;
  }

 private:
  using Found = std::optional<solve::Solution>;

  const Found& of(const StageQuestion& question) {
    return once(found_,
                {alike_.earliest(question.layers), key_of(question.link), question.memory,
                 question.in_flight},
                [&] { return solve(question); });
  }

  // The leanest program decides whether a stage fits, so that least_memory() is consistent.
  Found solve(const StageQuestion& question) {
    Found best;
    const auto fits = [&](const Found& solution) {
      if (!solution || memory_of(*solution, question.in_flight) > question.memory) return false;
      if (!best || solution->time < best->time) best = solution;
      return true;
    };
    const Found& lean = leanest(question);
    if (!fits(lean)) return best;
    // No solver can use more than keeping everything takes.
    const auto [first, last] = question.layers;
    const StageNeeds all = prepared(chain_, program::keep_all(first, last)).needs;
    Bytes high = std::min(question.memory, all.peak);
    if (fits(answer(question, high))) return best;
    Bytes low = std::min(lean->peak, high);
    for (int k = 0; k < kTries && low < high; ++k) {
      const Bytes middle(std::midpoint(low.count(), high.count()));
      (fits(answer(question, middle)) ? low : high) = middle;
    }
    return best;
  }

  Found answer(const StageQuestion& question, Bytes budget) const {
    solve::Problem asked = problem(question, budget);
    asked.breadth = breadth_;
    solve::Result result = solve::solve(solver_, asked);
    if (auto* solution = std::get_if<solve::Solution>(&result)) return std::move(*solution);
    return std::nullopt;
  }

  /// The program with the solver's least peak; empty where the run is too long for the solver.
  const Found& leanest(const StageQuestion& question) {
    return once(leanest_, {alike_.earliest(question.layers), key_of(question.link)},
                [&]() -> Found {
                  try {
                    return made_leanest(problem(question, Bytes(0)));
                  } catch (const InputError&) {
                    // The constructor has solved one layer, so there are too many layers.
                    return std::nullopt;
                  }
                });
  }

  solve::Solution made_leanest(solve::Problem problem) const {
    solve::Result result = solve::solve(solver_, problem);
    while (const auto* infeasible = std::get_if<plan::Infeasible>(&result)) {
      // Nearly always the least that works; slightly more where a solver underestimates it.
      problem.budget =
          std::max(infeasible->least_budget, problem.budget + problem.budget / 64 + Bytes(1));
      result = solve::solve(solver_, problem);
    }
    return std::get<solve::Solution>(std::move(result));
  }

  solve::Problem problem(const StageQuestion& question, Bytes budget) const {
    return {.chain = &chain_,
            .first_layer = question.layers.first,
            .last_layer = question.layers.last,
            .budget = budget,
            .link = question.link,
            .slots = slots_};
  }

  static Bytes memory_of(const solve::Solution& solution, int in_flight) {
    return solution.kept * (in_flight - 1) + solution.peak;
  }

  const chain::Chain& chain_;
  int slots_;
  double breadth_;
  std::string solver_;
  SubChains alike_;
  std::map<std::tuple<chain::LayerRange, LinkKey, Bytes, int>, Found> found_;
  std::map<std::pair<chain::LayerRange, LinkKey>, Found> leanest_;
};

}  // namespace

std::unique_ptr<StagePolicy> solver_policy(const Question& question, const std::string& solver) {
  return std::make_unique<SolverPolicy>(question, solver);
}

}  // namespace trireme::partition
