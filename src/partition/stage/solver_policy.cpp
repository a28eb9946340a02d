// Single-stage solvers in a pipeline: they know one budget, so it is lowered until (w - 1) times
// what their program keeps fits beside its peak: what using a single-stage solver as it is comes
// to.
// SPDX-License-Identifier: Apache-2.0
#include "stage_policy.h"
#include "sub_chains.h"

#include "trireme/core/error.h"
#include "trireme/program/generate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

/// Budgets tried between what the memory could be and what must be.
constexpr int kTries = 10;

class SolverPolicy final : public StagePolicy {
 public:
  SolverPolicy(const Question& question, std::string solver)
      : chain_(question.chain),
        slots_(question.slots),
        breadth_(question.breadth),
        solver_(std::move(solver)),
        sub_chains_(question.chain) {
    const solve::Problem tiny{.chain = &chain_,
                              .first_layer = 1,
                              .last_layer = 1,
                              .budget = Bytes(1),
                              .link = {},
                              .slots = slots_};
    solve::solve(solver_, tiny);  // throws for a name that it cannot read
  }

  double time(const StageQuestion& question) override { return of(question).time; }
  std::optional<program::StageProgram> program(const StageQuestion& question) override {
    const Found& found = of(question);
    if (found.time == kNever) return std::nullopt;
    return program::moved_to(found.program, question.first);
  }
  Bytes least_memory(int first, int last, int in_flight) override {
    const Lean& lean = leanest({.first = first, .last = last});
    return lean ? memory_of(*lean, in_flight) : kUnlimited;
  }

 private:
  struct Found {
    double time = kNever;
    program::StageProgram program;
  };
  /// Layers, as the earliest run that is like them, and the link's rates and capacity.
  using Run = std::tuple<int, int, double, double, Bytes>;
  using Key = std::tuple<Run, Bytes, int>;
  using Lean = std::optional<solve::Solution>;

  Run run_of(const StageQuestion& question);
  const Found& of(const StageQuestion& question);
  Found solve(const StageQuestion& question);
  std::optional<solve::Solution> answer(const StageQuestion& question, Bytes budget) const;
  /// The program with the solver's least peak; nothing where the run is too long for the solver.
  const Lean& leanest(const StageQuestion& question);
  Lean made_leanest(const StageQuestion& question) const;
  static Bytes memory_of(const solve::Solution& solution, int in_flight) {
    return solution.kept * (in_flight - 1) + solution.peak;
  }

  const chain::Chain& chain_;
  int slots_;
  double breadth_;
  std::string solver_;
  SubChains sub_chains_;
  std::map<Key, Found> found_;
  std::map<Run, Lean> leanest_;
};

SolverPolicy::Run SolverPolicy::run_of(const StageQuestion& question) {
  const int alike = sub_chains_.earliest(question.first, question.last);
  const solve::HostLink link = question.link.value_or(solve::HostLink{});
  return {alike, question.last - question.first, link.out.count(), link.in.count(), link.capacity};
}

const SolverPolicy::Found& SolverPolicy::of(const StageQuestion& question) {
  const auto [entry, is_new] =
      found_.try_emplace({run_of(question), question.memory, question.in_flight});
  if (is_new) entry->second = solve(question);
  return entry->second;
}

// What the leanest program needs decides whether a stage fits, so that least_memory() is the truth.
SolverPolicy::Found SolverPolicy::solve(const StageQuestion& question) {
  Found best;
  const auto fits = [&](const std::optional<solve::Solution>& solution) {
    if (!solution || memory_of(*solution, question.in_flight) > question.memory) return false;
    if (solution->time.count() < best.time) best = {solution->time.count(), solution->program};
    return true;
  };
  const Lean& lean = leanest(question);
  if (!fits(lean)) return best;
  // No solver has a use for more than keeping everything takes.
  const StageNeeds all = prepared(chain_, program::keep_all(question.first, question.last)).needs;
  Bytes high = std::min(question.memory, all.peak);
  if (fits(answer(question, high))) return best;
  Bytes low = std::min(lean->peak, high);
  for (int k = 0; k < kTries && low < high; ++k) {
    const Bytes middle(std::midpoint(low.count(), high.count()));
    (fits(answer(question, middle)) ? low : high) = middle;
  }
  return best;
}

std::optional<solve::Solution> SolverPolicy::answer(const StageQuestion& question,
                                                    Bytes budget) const {
  const solve::Problem problem{.chain = &chain_,
                               .first_layer = question.first,
                               .last_layer = question.last,
                               .budget = budget,
                               .link = question.link,
                               .slots = slots_,
                               .breadth = breadth_};
  solve::Result result = solve::solve(solver_, problem);
  if (auto* solution = std::get_if<solve::Solution>(&result)) return std::move(*solution);
  return std::nullopt;
}

const SolverPolicy::Lean& SolverPolicy::leanest(const StageQuestion& question) {
  const auto [entry, is_new] = leanest_.try_emplace(run_of(question));
  if (!is_new) return entry->second;
  try {
    entry->second = made_leanest(question);
  } catch (const InputError&) {
    // The constructor has asked for one layer: it is the number of layers that it cannot take.
  }
  return entry->second;
}

SolverPolicy::Lean SolverPolicy::made_leanest(const StageQuestion& question) const {
  solve::Problem problem{.chain = &chain_,
                         .first_layer = question.first,
                         .last_layer = question.last,
                         .budget = Bytes(0),
                         .link = question.link,
                         .slots = slots_};
  solve::Result result = solve::solve(solver_, problem);
  while (const auto* infeasible = std::get_if<plan::Infeasible>(&result)) {
    // Nearly always the least that works; a little more where a solver counts that too low.
    problem.budget =
        std::max(infeasible->least_budget, problem.budget + problem.budget / 64 + Bytes(1));
    result = solve::solve(solver_, problem);
  }
  return std::get<solve::Solution>(std::move(result));
}

}  // namespace

std::unique_ptr<StagePolicy> solver_policy(const Question& question, const std::string& solver) {
  return std::make_unique<SolverPolicy>(question, solver);
}

}  // namespace trireme::partition
