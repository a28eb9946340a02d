// The optimum of a stage by tables, shared by all stages, cuts and periods of one planning run.
// SPDX-License-Identifier: Apache-2.0
#include "solver_store.h"
#include "stage_policy.h"
#include "sub_chains.h"

#include "trireme/program/generate.h"
#include "trireme/solve/stage.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

class TablePolicy final : public StagePolicy {
 public:
  TablePolicy(const Question& question, bool input_may_leave);

  double time(const StageQuestion& question) override;
  std::optional<program::StageProgram> program(const StageQuestion& question) override;
  Bytes least_memory(int first, int last, int in_flight) override;

 private:
  /// The same question about the earliest run of equal layers, so that tables are shared.
  StageQuestion canonical(const StageQuestion& question);
  double solved_time(const StageQuestion& question);
  /// Tables whose slots suit such a memory.
  solve::StageSolver& solver_for(Bytes memory);
  std::optional<solve::StageSolution> solved(const StageQuestion& question);

  const chain::Chain& chain_;
  int slots_;
  bool input_may_leave_;
  Bytes largest_;
  SubChains sub_chains_;
  std::shared_ptr<SolverStore> store_;
  std::unique_ptr<StagePolicy> keep_all_;
  std::vector<double> work_;  // sums of f + b
  std::map<int, std::shared_ptr<solve::StageSolver>> solvers_;
  std::map<std::tuple<int, int, Bytes, int>, double> times_;
  std::map<std::tuple<int, int, Bytes, int, double, double, Bytes, bool>,
           std::optional<program::StageProgram>>
      programs_;
  std::map<std::tuple<int, int, int>, Bytes> least_;
};

TablePolicy::TablePolicy(const Question& question, bool input_may_leave)
    : chain_(question.chain),
      slots_(question.slots),
      input_may_leave_(input_may_leave),
      sub_chains_(question.chain),
      store_(store_of(question)),
      keep_all_(fixed_policy(question.chain, program::keep_all)),
      work_(1, 0) {
  for (const chain::RankSpec& rank : question.platform.ranks)
    largest_ = std::max(largest_, rank.memory);
  for (const chain::LayerCost& layer : chain_.layers)
    work_.push_back(work_.back() + (layer.forward + layer.backward).count());
}

double TablePolicy::time(const StageQuestion& asked) {
  // Where everything may be kept, nothing is faster.
  if (const double all = keep_all_->time(asked); all != kNever) return all;
  const StageQuestion question = canonical(asked);
  const auto [entry, is_new] = times_.try_emplace(
      {question.first, question.last, question.memory, question.in_flight}, kNever);
  if (is_new) entry->second = solved_time(question);
  return entry->second;
}

double TablePolicy::solved_time(const StageQuestion& question) {
  if (question.memory < least_memory(question.first, question.last, question.in_flight))
    return kNever;
  const double time = solver_for(question.memory)
                          .least_time({.first_layer = question.first,
                                       .last_layer = question.last,
                                       .memory = question.memory,
                                       .in_flight = question.in_flight,
                                       .link = {}})
                          .count();
  if (time != kNever) return time;
  // It fits in bytes but not in slots.
  const std::optional<solve::StageSolution> solution = solved(question);
  return solution ? solution->time().count() : kNever;
}

std::optional<program::StageProgram> TablePolicy::program(const StageQuestion& asked) {
  if (asked.memory < Bytes(0)) return std::nullopt;
  if (auto all = keep_all_->program(asked)) return all;
  if (asked.memory > largest_) return std::nullopt;  // beyond the tables
  const StageQuestion question = canonical(asked);
  const double out = question.link ? question.link->out.count() : 0;
  const double in = question.link ? question.link->in.count() : 0;
  const Bytes capacity = question.link ? question.link->capacity : Bytes(0);
  const auto [entry, is_new] =
      programs_.try_emplace({question.first, question.last, question.memory, question.in_flight,
                             out, in, capacity, question.quick});
  if (is_new) {
    if (auto solution = solved(question)) entry->second = std::move(solution->program);
  }
  if (!entry->second) return std::nullopt;
  return program::moved_to(*entry->second, asked.first);
}

Bytes TablePolicy::least_memory(int first, int last, int in_flight) {
  const int alike = sub_chains_.earliest(first, last);
  const int end = alike + last - first;
  const auto [entry, is_new] = least_.try_emplace({alike, end, in_flight});
  if (is_new) entry->second = solver_for(largest_).least_memory(alike, end, in_flight);
  return entry->second;
}

StageQuestion TablePolicy::canonical(const StageQuestion& question) {
  StageQuestion moved = question;
  moved.first = sub_chains_.earliest(question.first, question.last);
  moved.last = moved.first + question.last - question.first;
  return moved;
}

std::optional<solve::StageSolution> TablePolicy::solved(const StageQuestion& question) {
  auto result = solver_for(question.memory)
                    .solve({.first_layer = question.first,
                            .last_layer = question.last,
                            .memory = question.memory,
                            .in_flight = question.in_flight,
                            .link = question.link,
                            .quick = question.quick});
  if (auto* solution = std::get_if<solve::StageSolution>(&result)) return std::move(*solution);
  return std::nullopt;
}

// Halves of the largest memory, so that a small rank beside a large one has its slots too.
solve::StageSolver& TablePolicy::solver_for(Bytes memory) {
  int halvings = 0;
  Bytes size = std::max(largest_, Bytes(1));
  while (size / 2 >= memory && halvings < 3) {
    size = size / 2;
    ++halvings;
  }
  std::shared_ptr<solve::StageSolver>& solver = solvers_[halvings];
  if (!solver)
    solver = store_->solver(
        chain_, {.largest_memory = size, .slots = slots_, .input_may_leave = input_may_leave_});
  return *solver;
}

}  // namespace

std::unique_ptr<StagePolicy> table_policy(const Question& question, bool input_may_leave) {
  return std::make_unique<TablePolicy>(question, input_may_leave);
}

}  // namespace trireme::partition
