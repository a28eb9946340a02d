// Table policy: the optimum of a stage by tables, shared by all stages, cuts and periods of one
// planning run; and the store of such tables.
// SPDX-License-Identifier: Apache-2.0
#include "memory/rank.h"
#include "solver_store.h"
#include "stage_policy.h"
#include "sub_chains.h"
#include "values/lookup.h"

#include "trireme/program/generate.h"
#include "trireme/solve/stage.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

/// Most bytes of unused tables kept for reuse.
constexpr std::size_t kMost = std::size_t{256} << 20;

/// The chain without names and static bytes; the latter differ between replicas.
chain::Chain passes_of(chain::Chain chain) {
  chain.name.clear();
  for (chain::LayerCost& layer : chain.layers) {
    layer.name.clear();
    layer.parameters = layer.gradients = layer.optimizer = Bytes(0);
    layer.frozen = layer.trained = layer.trained_gradients = Bytes(0);
    layer.update = Seconds(0);
  }
  return chain;
}

class TablePolicy final : public StagePolicy {
 public:
  TablePolicy(const Question& question, bool input_may_leave)
      : chain_(question.chain),
        slots_(question.slots),
        input_may_leave_(input_may_leave),
        alike_(question.chain),
        store_(store_of(question)),
        keep_all_(fixed_policy(question.chain, program::keep_all)) {
    for (int rank = 0; rank < std::ssize(question.platform.ranks); ++rank)
      largest_ = std::max(largest_, memory_for_programs(question, rank));
  }

  Seconds time(const StageQuestion& asked) override {
    // If everything can be kept, that is fastest.
    if (const Seconds all = keep_all_->time(asked); all != kNever) return all;
    const StageQuestion question = canonical(asked);
    return once(times_, {question.layers, question.memory, question.in_flight},
                [&] { return solved_time(question); });
  }
  std::optional<program::StageProgram> program(const StageQuestion& asked) override {
    if (asked.memory < Bytes(0)) return std::nullopt;
    if (auto all = keep_all_->program(asked)) return all;
    if (asked.memory > largest_) return std::nullopt;  // beyond the tables
    const StageQuestion question = canonical(asked);
    const auto& solution = once(programs_,
                                {question.layers, question.memory, question.in_flight,
                                 key_of(question.link), question.quick},
                                [&] { return solved(question); });
    if (!solution) return std::nullopt;
    return program::moved_to(solution->program, asked.layers.first);
  }
  Bytes least_memory(chain::LayerRange layers, int in_flight) override {
    const chain::LayerRange run = alike_.earliest(layers);
    return once(least_, {run, in_flight},
                [&] { return solver_for(largest_).least_memory(run, in_flight); });
  }

 private:
  /// The question about the earliest run of equal layers, so that tables are shared.
  StageQuestion canonical(StageQuestion question) {
    question.layers = alike_.earliest(question.layers);
    return question;
  }

  Seconds solved_time(const StageQuestion& question) {
    if (question.memory < least_memory(question.layers, question.in_flight)) return kNever;
    solve::StageProblem problem = problem_of(question);
    problem.link = {};
    const Seconds time = solver_for(question.memory).least_time(problem);
    if (time != kNever) return time;
    // It fits in bytes, but not after rounding to slots.
    const std::optional<solve::StageSolution> solution = solved(question);
    return solution ? solution->time() : kNever;
  }

  std::optional<solve::StageSolution> solved(const StageQuestion& question) {
    auto result = solver_for(question.memory).solve(problem_of(question));
    if (auto* solution = std::get_if<solve::StageSolution>(&result)) return std::move(*solution);
    return std::nullopt;
  }

  static solve::StageProblem problem_of(const StageQuestion& question) {
    return {.layers = question.layers,
            .memory = question.memory,
            .in_flight = question.in_flight,
            .link = question.link,
            .quick = question.quick};
  }

  /// Tables with slots suited to this memory: the largest one is halved up to three times, so that
  /// a rank much smaller than the largest has enough slots, too.
  solve::StageSolver& solver_for(Bytes memory) {
    int halvings = 0;
    Bytes size = std::max(largest_, Bytes(1));
    for (; size / 2 >= memory && halvings < 3; ++halvings) size = size / 2;
    return *once(solvers_, halvings, [&] {
      return store_->solver(
          chain_, {.largest_memory = size, .slots = slots_, .input_may_leave = input_may_leave_});
    });
  }

  const chain::Chain& chain_;
  int slots_;
  bool input_may_leave_;
  Bytes largest_;
  SubChains alike_;
  std::shared_ptr<SolverStore> store_;
  std::unique_ptr<StagePolicy> keep_all_;
  std::map<int, std::shared_ptr<solve::StageSolver>> solvers_;
  std::map<std::tuple<chain::LayerRange, Bytes, int>, Seconds> times_;
  std::map<std::tuple<chain::LayerRange, Bytes, int, LinkKey, bool>,
           std::optional<solve::StageSolution>>
      programs_;
  std::map<std::pair<chain::LayerRange, int>, Bytes> least_;
};

}  // namespace

std::unique_ptr<StagePolicy> table_policy(const Question& question, bool input_may_leave) {
  return std::make_unique<TablePolicy>(question, input_may_leave);
}

std::shared_ptr<solve::StageSolver> SolverStore::solver(
    const chain::Chain& whole, const solve::StageSolver::Options& options) {
  chain::Chain chain = passes_of(whole);
  const std::lock_guard lock(mutex_);
  const auto place = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.options == options && entry.chain == chain;
  });
  if (place != entries_.end()) {
    std::rotate(place, place + 1, entries_.end());
  } else {
    forget();
    auto solver = std::make_shared<solve::StageSolver>(chain, options);
    entries_.push_back({std::move(chain), options, std::move(solver)});
  }
  return entries_.back().solver;
}

void SolverStore::forget() {
  std::size_t total = 0;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->solver.use_count() > 1) continue;
    total += entry->solver->size();
    if (total > kMost) entry->solver.reset();
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.solver == nullptr; });
}

std::shared_ptr<SolverStore> store_of(const Question& question) {
  return question.solvers ? question.solvers : std::make_shared<SolverStore>();
}

Question with_store(Question question) {
  question.solvers = store_of(question);
  return question;
}

}  // namespace trireme::partition
