// The solver "pofo" (Beaumont, Eyraud-Dubois, Shilova, NeurIPS 2021), a solver of chains: the graph
// becomes a chain of blocks (blocks.h), the chain's solver plans those for the least time, with
// copies that are hidden by compute as far as they can be, and its program is written out in nodes.
// Joules are counted afterwards.
//
// A block is kept, recomputed or copied out as a whole. So a graph with long skips has few choices.
// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"
#include "solvers.h"
#include "tidy.h"

#include "trireme/core/text.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace trireme::poet {
namespace {

using graph::Problem;
using graph::Schedule;

/// A chain counts gradients with their outputs' bytes, and rounds: budgets beside the memory are
/// tried, in percent of it, and replay judges.
constexpr int kLeastBudget = 70, kMostBudget = 160, kStep = 5;

/// From a chain's program to computations and copies of nodes.
class Writing {
 public:
  Writing(const Problem& problem, const Blocks& blocks)
      : blocks_(blocks), is_out_(problem.graph.nodes.size()) {}
  Schedule operator()(const program::StageProgram& program) &&;

 private:
  void write(const program::Action& action);
  void compute(int first, int last);
  void copy_out(int node);

  const Blocks& blocks_;
  std::vector<bool> is_out_;  ///< by node: copied out already
  Schedule actions_{};
};

class Pofo {
 public:
  Pofo(const Problem& problem, const Freedom& freedom);
  Result run();

 private:
  Bytes least_budget();
  void attempt(Bytes budget);
  std::optional<Schedule> planned(Bytes budget);
  void offer(const Schedule& schedule);
  Infeasible why_not(Bytes least_budget);

  const Problem& problem_;
  const Freedom& freedom_;
  Blocks blocks_;
  chain::Chain chain_;
  solve::Problem question_{};
  std::optional<Schedule> best_{};
  graph::Outcome outcome_{};
};

solve::HostLink link_of(const Problem& problem);

}  // namespace

Result solve_pofo(const Problem& problem, const Freedom& freedom) {
  if (auto solution = without_search(problem, freedom)) return *std::move(solution);
  return Pofo(problem, freedom).run();
}

namespace {

Pofo::Pofo(const Problem& problem, const Freedom& freedom)
    : problem_(problem),
      freedom_(freedom),
      blocks_(blocks_of(problem.graph)),
      chain_(chain_of(problem, blocks_)) {
  question_.chain = &chain_;
  if (freedom.may_copy && problem.capacity > Bytes(0)) question_.link = link_of(problem);
}

Result Pofo::run() {
  const Bytes least = least_budget();
  if (problem_.memory > Bytes(0)) {
    attempt(least);
    for (int percent = kLeastBudget; percent <= kMostBudget; percent += kStep) {
      const Bytes budget(problem_.memory.count() * percent / 100);
      if (budget > least) attempt(budget);
    }
  }
  if (!best_ || !is_in_time(problem_, outcome_)) return why_not(least);
  return Solution{
      .schedule = *best_, .outcome = outcome_, .bound = least_value(problem_, freedom_.objective)};
}

// The budget with which the chain's solver has a program.
Bytes Pofo::least_budget() {
  question_.budget = Bytes(0);
  const solve::Result result = solve::solve(freedom_.may_recompute ? "pofo" : "offload", question_);
  const auto* const why = std::get_if<plan::Infeasible>(&result);
  return why != nullptr ? why->least_budget : Bytes(0);
}

void Pofo::attempt(Bytes budget) {
  const std::optional<Schedule> schedule = planned(budget);
  if (!schedule) return;
  offer(*schedule);
  if (problem_.lanes == graph::Lanes::kBeside) offer(spread(problem_, *schedule));
}

std::optional<Schedule> Pofo::planned(Bytes budget) {
  question_.budget = budget;
  const solve::Result result = solve::solve(freedom_.may_recompute ? "pofo" : "offload", question_);
  const auto* const solution = std::get_if<solve::Solution>(&result);
  if (solution == nullptr) return std::nullopt;
  return tidied(problem_.graph, Writing(problem_, blocks_)(solution->program));
}

void Pofo::offer(const Schedule& schedule) {
  const graph::Replayed replayed = replay(problem_, schedule);
  if (replayed.fault || (best_ && replayed.outcome.time >= outcome_.time)) return;
  best_ = schedule;
  outcome_ = replayed.outcome;
}

Infeasible Pofo::why_not(Bytes least_budget) {
  const Widest most = widest(problem_.graph);
  Infeasible why{.is_proven = problem_.memory > Bytes(0) && most.bytes > problem_.memory,
                 .node = most.node};
  if (best_) {
    why.least_memory = outcome_.peak;
    why.least_time = outcome_.time;
    why.where = concat("pofo takes ", to_text(outcome_.time), " for ", blocks_.count(), " blocks");
    return why;
  }
  Problem unlimited = problem_;
  unlimited.memory = Bytes(0);
  unlimited.deadline = Problem{}.deadline;
  const std::optional<Schedule> leanest = planned(least_budget);
  if (leanest) why.least_memory = replay(unlimited, *leanest).outcome.peak;
  why.where = concat("pofo cuts the graph into ", blocks_.count(), " blocks, for which it needs ",
                     to_text(why.least_memory));
  return why;
}

// Mean rates: a chain does not know latencies.
solve::HostLink link_of(const Problem& problem) {
  double bytes = 0;
  Seconds out{0}, in{0};
  for (int node = 0; node < problem.graph.size(); ++node) {
    bytes += static_cast<double>(problem.graph.node(node).bytes.count());
    if (problem.graph.node(node).bytes == Bytes(0)) continue;
    out += problem.cost(node).out;
    in += problem.cost(node).in;
  }
  constexpr Seconds kInstant{1e-12};
  return {.out = BytesPerSecond(bytes / std::max(out, kInstant).count()),
          .in = BytesPerSecond(bytes / std::max(in, kInstant).count()),
          .capacity = problem.capacity};
}

Schedule Writing::operator()(const program::StageProgram& program) && {
  compute(0, 0);
  for (const program::Action& action : program.forward) write(action);
  for (const program::Action& action : program.backward) write(action);
  return std::move(actions_);
}

void Writing::write(const program::Action& action) {
  const int block = action.layer;
  switch (action.op) {
    case program::Op::kForward:
    case program::Op::kForwardKeep:
    case program::Op::kForwardTape:
    case program::Op::kRetape:
      return compute(blocks_.output(block - 1) + 1, blocks_.output(block));
    case program::Op::kBackward:
      return compute(blocks_.first_backward(block), blocks_.last_backward(block));
    case program::Op::kOffload:
      return copy_out(blocks_.output(block));
    case program::Op::kOffloadTape:
      for (const int node : blocks_.tape(block)) copy_out(node);
      return;
    case program::Op::kPrefetch:
      actions_.push_back({graph::Op::kCopyIn, blocks_.output(block)});
      return;
    case program::Op::kPrefetchTape:
      for (const int node : blocks_.tape(block)) actions_.push_back({graph::Op::kCopyIn, node});
      return;
    default:
      return;
  }
}

void Writing::compute(int first, int last) {
  for (int node = first; node <= last; ++node) actions_.push_back({graph::Op::kCompute, node});
}

void Writing::copy_out(int node) {
  if (!is_out_[static_cast<std::size_t>(node)]) actions_.push_back({graph::Op::kCopyOut, node});
  is_out_[static_cast<std::size_t>(node)] = true;
}

}  // namespace
}  // namespace trireme::poet
