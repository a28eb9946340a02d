// SPDX-License-Identifier: Apache-2.0
#include "solvers.h"
#include "tidy.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>

namespace trireme::poet {
namespace {

using graph::NodeCost;
using graph::Op;
using graph::Problem;
using graph::Schedule;

/// How a value comes back.
enum class Back { kRead, kMade, kCheaper };

/// What a run of the rules prefers.
struct Taste {
  Back back{};
  double distance = 0;          ///< exponent: how much a next use far away counts
  std::vector<double> weights;  ///< by node: how much its price counts
  bool keeps_unused = false;    ///< what has no use ahead but a weight of more than 1
};

/// More actions than this for each node are no sensible schedule.
constexpr std::size_t kMostActions = 200;
/// So deep is asked what making a value again takes, if its inputs must be made again, too.
constexpr int kDepth = 4;
/// Tastes that each tries at random, for each node; fewer where graphs are so large that a trial,
/// which looks at all nodes for each node, takes long.
constexpr std::size_t kTrials = 30;
constexpr std::size_t kWork = 8'000'000;
constexpr double kNever = std::numeric_limits<double>::infinity();

class Greedy {
 public:
  Greedy(const Problem& problem, const Freedom& freedom, const Taste& taste);
  std::optional<Schedule> run();

 private:
  bool make(int node);
  bool get_back(int node);
  bool can_read(int node) const;
  bool is_read_back(int node) const;
  bool read(int node);
  bool make_room(Bytes bytes);
  int least_missed() const;
  double missed(int node) const;
  double price_of_return(int node, int depth) const;
  double price_of_reading(int node) const;
  double price_of_making(int node, int depth) const;
  int next_use(int node) const;
  void take(Op op, int node);
  void drop(int node);
  double price(Joules energy, Seconds time) const;
  Schedule with_copies_out() const;

  static std::size_t at(int node) { return static_cast<std::size_t>(node); }
  Bytes bytes(int node) const { return problem_.graph.node(node).bytes; }

  const Problem& problem_;
  const Freedom& freedom_;
  const Taste& taste_;
  std::vector<std::vector<int>> users_;
  std::vector<bool> here_, out_;
  std::vector<int> pins_;  ///< by node: computations under way that need it
  int next_ = 0;           ///< the next that is computed first
  Bytes held_{0}, offloaded_{0};
  Schedule schedule_{};
};

/// The best schedule of all tastes that were tried, by several local searches: one alone often ends
/// where it cannot go on.
class Tasting {
 public:
  Tasting(const Problem& problem, const Freedom& freedom) : problem_(problem), freedom_(freedom) {}
  std::optional<Schedule> run(int searches);

 private:
  void search(bool keeps_unused);
  void attempt(const Taste& taste);
  void vary();

  const Problem& problem_;
  const Freedom& freedom_;
  std::mt19937 random_{1};
  Taste taste_{};            ///< the best one of this search
  double reached_ = kNever;  ///< with it
  std::optional<Schedule> best_{};
  double least_ = kNever;
};

}  // namespace

Result solve_greedy(const Problem& problem, const Freedom& freedom) {
  const std::optional<Schedule> schedule = greedy_schedule(problem, freedom, kGreedySearches);
  const Widest most = widest(problem.graph);
  if (!schedule) {
    const bool is_proven = problem.memory > Bytes(0) && most.bytes > problem.memory;
    const Seconds least = least_time(solve_greedy, problem, freedom);
    return Infeasible{
        .is_proven = is_proven,
        .node = most.node,
        .least_time = least,
        .where = problem.memory == Bytes(0)
                     ? words_of_deadline(problem, least)
                     : concat("greedy finds no schedule within ", to_text(problem.memory), "; ",
                              problem.graph.node(most.node).name, " needs ", to_text(most.bytes),
                              " with its inputs")};
  }
  return Solution{.schedule = *schedule,
                  .outcome = replay(problem, *schedule).outcome,
                  .bound = least_value(problem, freedom.objective)};
}

std::optional<Schedule> greedy_schedule(const Problem& problem, const Freedom& freedom,
                                        int searches) {
  return Tasting(problem, freedom).run(searches);
}

namespace {

std::optional<Schedule> Tasting::run(int searches) {
  search(false);
  for (int k = 1; best_ && k < searches; ++k) search(k % 2 == 1);
  return std::move(best_);
}

void Tasting::search(bool keeps_unused) {
  reached_ = kNever;
  for (const Back back : {Back::kRead, Back::kMade, Back::kCheaper}) {
    for (const double distance : {0.0, 1.0, 4.0}) {
      attempt({back, distance, std::vector<double>(problem_.graph.nodes.size(), 1), keeps_unused});
    }
  }
  if (best_) vary();
}

void Tasting::attempt(const Taste& taste) {
  const std::optional<Schedule> schedule = Greedy(problem_, freedom_, taste).run();
  if (!schedule) return;
  const graph::Outcome outcome = replay(problem_, *schedule).outcome;
  const double value = value_of(outcome, freedom_.objective);
  if (!is_in_time(problem_, outcome) || value > reached_) return;
  reached_ = value;
  taste_ = taste;
  if (value >= least_) return;
  least_ = value;
  best_ = schedule;
}

// Weights of a few nodes are changed at random, and stay so where that does not harm: from
// schedules that are as good others are reached.
void Tasting::vary() {
  const std::size_t nodes = problem_.graph.nodes.size();
  const std::size_t trials = std::min(kTrials * nodes, kWork / (nodes * nodes) + 1);
  for (std::size_t trial = 0; trial < trials && !freedom_.limit.is_over(); ++trial) {
    Taste taste = taste_;
    for (int k = 0; k < 3; ++k) {
      taste.weights[random_() % nodes] = std::exp2(static_cast<double>(random_() % 17) - 8);
    }
    attempt(taste);
  }
}

Greedy::Greedy(const Problem& problem, const Freedom& freedom, const Taste& taste)
    : problem_(problem),
      freedom_(freedom),
      taste_(taste),
      users_(users_of(problem.graph)),
      here_(problem.graph.nodes.size()),
      out_(problem.graph.nodes.size()),
      pins_(problem.graph.nodes.size()) {}

// What no node reads any more when it is first computed may still be what others are made of again:
// it leaves at once unless it is missed.
std::optional<Schedule> Greedy::run() {
  const int nodes = problem_.graph.size();
  while (next_ < nodes) {
    if (!make(next_)) return std::nullopt;
    ++next_;
    for (int node = 0; node < next_; ++node) {
      const bool is_unused = here_[at(node)] && next_use(node) == nodes;
      const bool is_missed = taste_.keeps_unused && taste_.weights[at(node)] > 1;
      if (is_unused && !is_missed) drop(node);
    }
  }
  return tidied(problem_.graph, with_copies_out());
}

bool Greedy::make(int node) {
  const std::vector<int>& inputs = problem_.graph.node(node).inputs;
  for (const int input : inputs) {
    if (!here_[at(input)] && !get_back(input)) return false;
    ++pins_[at(input)];
  }
  if (!make_room(bytes(node) + problem_.graph.node(node).transient)) return false;
  for (const int input : inputs) --pins_[at(input)];
  take(Op::kCompute, node);
  return true;
}

bool Greedy::get_back(int node) {
  if (schedule_.size() > kMostActions * problem_.graph.nodes.size()) return false;
  if (is_read_back(node)) return read(node);
  return freedom_.may_recompute && make(node);
}

bool Greedy::can_read(int node) const {
  return freedom_.may_copy && problem_.capacity > Bytes(0) &&
         (out_[at(node)] || offloaded_ + bytes(node) <= problem_.capacity);
}

bool Greedy::is_read_back(int node) const {
  if (!can_read(node) || !freedom_.may_recompute) return can_read(node);
  if (taste_.back != Back::kCheaper) return taste_.back == Back::kRead;
  return price_of_reading(node) < price_of_making(node, kDepth);
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
    const int node = least_missed();
    if (node < 0) return false;
    drop(node);
  }
  return true;
}

// Among values that may leave; -1: none may.
int Greedy::least_missed() const {
  int best = -1;
  double least = std::numeric_limits<double>::infinity();
  for (int node = 0; node < next_; ++node) {
    if (!here_[at(node)] || pins_[at(node)] > 0 || bytes(node) == Bytes(0)) continue;
    const double value = missed(node);
    if (best >= 0 && value >= least) continue;
    best = node;
    least = value;
  }
  return best;
}

// The price of its return for each byte, less where it is used late.
double Greedy::missed(int node) const {
  const double distance = next_use(node) - next_ + 1;
  const auto size = static_cast<double>(bytes(node).count());
  return taste_.weights[at(node)] * price_of_return(node, kDepth) / size /
         std::pow(distance, taste_.distance);
}

double Greedy::price_of_return(int node, int depth) const {
  const double reading = can_read(node) ? price_of_reading(node) : kNever;
  if (!freedom_.may_recompute || (taste_.back == Back::kRead && can_read(node))) return reading;
  const double making = price_of_making(node, depth);
  return taste_.back == Back::kMade ? making : std::min(reading, making);
}

double Greedy::price_of_reading(int node) const {
  const NodeCost& cost = problem_.cost(node);
  const double in = price(cost.in_energy, cost.in);
  return out_[at(node)] ? in : in + price(cost.out_energy, cost.out);
}

double Greedy::price_of_making(int node, int depth) const {
  double sum = price(problem_.cost(node).energy, problem_.cost(node).time);
  for (const int input : problem_.graph.node(node).inputs) {
    if (here_[at(input)]) continue;
    sum += depth == 0 ? price(problem_.cost(input).energy, problem_.cost(input).time)
                      : price_of_return(input, depth - 1);
  }
  return sum;
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
  return freedom_.objective == Objective::kTime ? time.count() : energy.count();
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
