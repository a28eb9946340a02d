// SPDX-License-Identifier: Apache-2.0
#include "solvers.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>

namespace trireme::poet {
namespace {

using graph::NodeCost;
using graph::Op;
using graph::Problem;
using graph::Schedule;

enum class Back { kRead, kMade, kCheaper };

/// More actions than this for each node are no sensible schedule.
constexpr std::size_t kMostActions = 200;

class Greedy {
 public:
  Greedy(const Problem& problem, const Freedom& freedom, Back back);
  std::optional<Schedule> run();

 private:
  bool make(int node);
  bool get_back(int node);
  bool is_read_back(int node) const;
  bool read(int node);
  bool make_room(Bytes bytes);
  int furthest() const;
  int next_use(int node) const;
  void take(Op op, int node);
  void drop(int node);
  double price(Joules energy, Seconds time) const;
  Schedule with_copies_out() const;

  static std::size_t at(int node) { return static_cast<std::size_t>(node); }
  Bytes bytes(int node) const { return problem_.graph.node(node).bytes; }

  const Problem& problem_;
  const Freedom& freedom_;
  Back back_;
  std::vector<std::vector<int>> users_;
  std::vector<bool> here_, out_;
  std::vector<int> pins_;  ///< by node: computations under way that need it
  int next_ = 0;           ///< computed first next
  Bytes held_{0}, offloaded_{0};
  Schedule schedule_{};
};

}  // namespace

Result solve_greedy(const Problem& problem, const Freedom& freedom) {
  const std::optional<Schedule> schedule = greedy_schedule(problem, freedom);
  const Widest most = widest(problem.graph);
  if (!schedule) {
    const bool is_proven = problem.memory > Bytes(0) && most.bytes > problem.memory;
    return Infeasible{.is_proven = is_proven,
                      .node = most.node,
                      .where = concat("greedy finds no schedule within ", to_text(problem.memory),
                                      "; ", problem.graph.node(most.node).name, " needs ",
                                      to_text(most.bytes), " with its inputs")};
  }
  return Solution{.schedule = *schedule,
                  .outcome = replay(problem, *schedule).outcome,
                  .bound = least_value(problem, freedom.objective)};
}

std::optional<Schedule> greedy_schedule(const Problem& problem, const Freedom& freedom) {
  std::optional<Schedule> best;
  double least = std::numeric_limits<double>::infinity();
  for (const Back back : {Back::kRead, Back::kMade, Back::kCheaper}) {
    const std::optional<Schedule> schedule = Greedy(problem, freedom, back).run();
    if (!schedule) continue;
    const graph::Outcome outcome = replay(problem, *schedule).outcome;
    if (!is_in_time(problem, outcome) || value_of(outcome, freedom.objective) >= least) continue;
    least = value_of(outcome, freedom.objective);
    best = schedule;
  }
  return best;
}

namespace {

Greedy::Greedy(const Problem& problem, const Freedom& freedom, Back back)
    : problem_(problem),
      freedom_(freedom),
      back_(back),
      users_(users_of(problem.graph)),
      here_(problem.graph.nodes.size()),
      out_(problem.graph.nodes.size()),
      pins_(problem.graph.nodes.size()) {}

std::optional<Schedule> Greedy::run() {
  const int nodes = problem_.graph.size();
  while (next_ < nodes) {
    if (!make(next_)) return std::nullopt;
    ++next_;
    for (int node = 0; node < next_; ++node) {
      if (here_[at(node)] && next_use(node) == nodes) drop(node);
    }
  }
  return with_copies_out();
}

bool Greedy::make(int node) {
  const std::vector<int>& inputs = problem_.graph.node(node).inputs;
  for (const int input : inputs) {
    if (!here_[at(input)] && !get_back(input)) return false;
    ++pins_[at(input)];
  }
  if (!make_room(bytes(node))) return false;
  for (const int input : inputs) --pins_[at(input)];
  take(Op::kCompute, node);
  return true;
}

bool Greedy::get_back(int node) {
  if (schedule_.size() > kMostActions * problem_.graph.nodes.size()) return false;
  if (is_read_back(node)) return read(node);
  return freedom_.may_recompute && make(node);
}

bool Greedy::is_read_back(int node) const {
  const bool is_out = out_[at(node)];
  const bool can_read = freedom_.may_copy && problem_.capacity > Bytes(0) &&
                        (is_out || offloaded_ + bytes(node) <= problem_.capacity);
  if (!can_read || !freedom_.may_recompute) return can_read;
  const NodeCost& cost = problem_.cost(node);
  double copies = price(cost.in_energy, cost.in);
  if (!is_out) copies += price(cost.out_energy, cost.out);
  return back_ == Back::kRead ||
         (back_ == Back::kCheaper && copies < price(cost.energy, cost.time));
}

bool Greedy::read(int node) {
  if (!make_room(bytes(node))) return false;
  if (!out_[at(node)]) offloaded_ += bytes(node);
  out_[at(node)] = true;
  take(Op::kCopyIn, node);
  return true;
}

bool Greedy::make_room(Bytes bytes) {
  while (problem_.memory > Bytes(0) && held_ + bytes > problem_.memory) {
    const int node = furthest();
    if (node < 0) return false;
    drop(node);
  }
  return true;
}

// Of what may leave, the one that is used last by a first computation; -1: nothing may.
int Greedy::furthest() const {
  int best = -1;
  for (int node = 0; node < next_; ++node) {
    if (!here_[at(node)] || pins_[at(node)] > 0 || bytes(node) == Bytes(0)) continue;
    if (best < 0 || next_use(node) > next_use(best)) best = node;
  }
  return best;
}

int Greedy::next_use(int node) const {
  const std::vector<int>& users = users_[at(node)];
  const auto next = std::lower_bound(users.begin(), users.end(), next_);
  return next == users.end() ? problem_.graph.size() : *next;
}

void Greedy::take(Op op, int node) {
  schedule_.push_back({op, node});
  here_[at(node)] = true;
  held_ += bytes(node);
}

void Greedy::drop(int node) {
  schedule_.push_back({Op::kDrop, node});
  here_[at(node)] = false;
  held_ -= bytes(node);
}

double Greedy::price(Joules energy, Seconds time) const {
  if (freedom_.objective == Objective::kTime) return time.count();
  return (energy + problem_.idle * time).count();
}

// What is read back was copied out right after it was first made.
Schedule Greedy::with_copies_out() const {
  Schedule schedule;
  std::vector<bool> to_copy = out_;
  for (const graph::Action& action : schedule_) {
    schedule.push_back(action);
    if (action.op != Op::kCompute || !to_copy[at(action.node)]) continue;
    schedule.push_back({Op::kCopyOut, action.node});
    to_copy[at(action.node)] = false;
  }
  return schedule;
}

}  // namespace
}  // namespace trireme::poet
