// The solver "capuchin" (Peng et al., ASPLOS 2020), by the rules of its paper on the accesses of
// keep_all: a value is a candidate for eviction between two of its accesses. While memory does not
// suffice at its highest point, of all candidates that are held across it
//
// - that one is swapped whose copies are hidden best: the time between its two accesses, less that
//   of both copies, is the longest, and not negative;
// - if no copies are hidden, that one is swapped or recomputed which saves most bytes for a second
//   of overhead: of copies what is not hidden, of recomputation all of it, with inputs that are
//   gone.
//
// A copy in is begun so early that what is computed meanwhile takes as long, if there is memory.
// Joules are counted afterwards; nothing is chosen for them.
// SPDX-License-Identifier: Apache-2.0
#include "solvers.h"
#include "tidy.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace trireme::poet {
namespace {

using graph::Op;
using graph::Problem;
using graph::Schedule;

enum class Eviction { kNone, kSwapped, kRecomputed };

/// Between two accesses of a value: computations of nodes.
struct Gap {
  int value = 0;
  int from = 0, to = 0;
  Eviction eviction = Eviction::kNone;
};

/// What evicting a value in a gap is worth.
struct Worth {
  bool is_hidden = false;
  double rank = 0;  ///< seconds to spare of hidden copies, else bytes for each second

  bool operator<(const Worth& other) const {
    return std::pair(is_hidden, rank) < std::pair(other.is_hidden, other.rank);
  }
};

class Capuchin {
 public:
  Capuchin(const Problem& problem, const Freedom& freedom);
  Result run();

 private:
  void find_gaps();
  bool evict_across(int step);
  std::optional<Worth> worth_of_swap(const Gap& gap) const;
  std::optional<Worth> worth_of_recomputing(const Gap& gap) const;
  Seconds time_to_make(int value, int step, std::vector<bool>& is_made) const;
  const Gap* gap_at(int value, int step) const;
  Schedule schedule() const;
  Result solution(const Schedule& schedule) const;
  Infeasible why_not(const Schedule& schedule) const;
  Bytes bytes(int node) const { return problem_.graph.node(node).bytes; }

  const Problem& problem_;
  const Freedom& freedom_;
  std::vector<Gap> gaps_{};
  std::vector<Seconds> begins_{Seconds(0)};  ///< by node, of its computation in keep_all; the end
  std::vector<bool> is_out_;                 ///< by node: swapped in some gap
  Bytes outside_{0};
};

/// keep_all's computations, with what brings values back that were evicted.
class Writing {
 public:
  Writing(const graph::Graph& graph, const std::vector<Gap>& gaps, const std::vector<bool>& is_out)
      : graph_(graph),
        is_out_(is_out),
        is_here_(graph.nodes.size()),
        leave_(graph.nodes.size()),
        last_use_(graph.nodes.size(), -1) {
    for (const Gap& gap : gaps) {
      if (gap.eviction != Eviction::kNone)
        leave_[static_cast<std::size_t>(gap.from)].push_back(gap.value);
      int& last = last_use_[static_cast<std::size_t>(gap.value)];
      last = std::max(last, gap.to);
    }
  }
  Schedule run() &&;

 private:
  void bring(int value);
  void compute(int node);
  void forget(int step);
  static std::size_t at(int node) { return static_cast<std::size_t>(node); }

  const graph::Graph& graph_;
  const std::vector<bool>& is_out_;
  std::vector<bool> is_here_;            ///< by node
  std::vector<std::vector<int>> leave_;  ///< by node: what is evicted after it
  std::vector<int> last_use_;            ///< by node
  std::vector<int> brought_{};           ///< in this step
  Schedule actions_{};
};

int step_at(const Schedule& schedule, std::size_t at);

}  // namespace

Result solve_capuchin(const Problem& problem, const Freedom& freedom) {
  if (auto solution = without_search(problem, freedom)) return *std::move(solution);
  return Capuchin(problem, freedom).run();
}

namespace {

Capuchin::Capuchin(const Problem& problem, const Freedom& freedom)
    : problem_(problem), freedom_(freedom), is_out_(problem.graph.nodes.size()) {
  for (const graph::NodeCost& cost : problem.costs) begins_.push_back(begins_.back() + cost.time);
  find_gaps();
}

void Capuchin::find_gaps() {
  const std::vector<std::vector<int>> users = users_of(problem_.graph);
  for (int value = 0; value < problem_.graph.size(); ++value) {
    int from = value;
    for (const int user : users[static_cast<std::size_t>(value)]) {
      if (bytes(value) > Bytes(0)) gaps_.push_back({value, from, user});
      from = user;
    }
  }
}

Result Capuchin::run() {
  Problem unlimited = problem_;
  unlimited.memory = Bytes(0);
  while (true) {
    const Schedule made = schedule();
    const graph::Replayed replayed = replay(unlimited, made);
    if (problem_.memory == Bytes(0) || replayed.outcome.peak <= problem_.memory) {
      return solution(made);
    }
    if (!evict_across(step_at(made, replayed.outcome.peak_at))) return why_not(made);
  }
}

bool Capuchin::evict_across(int step) {
  Gap* best = nullptr;
  Eviction how = Eviction::kNone;
  std::optional<Worth> most;
  const auto consider = [&](Gap& gap, Eviction eviction, const std::optional<Worth>& worth) {
    if (!worth || (most && !(*most < *worth))) return;
    best = &gap;
    how = eviction;
    most = worth;
  };
  for (Gap& gap : gaps_) {
    if (gap.eviction != Eviction::kNone || gap.from >= step || gap.to <= step) continue;
    consider(gap, Eviction::kSwapped, worth_of_swap(gap));
    consider(gap, Eviction::kRecomputed, worth_of_recomputing(gap));
  }
  if (best == nullptr) return false;
  best->eviction = how;
  const auto value = static_cast<std::size_t>(best->value);
  if (how == Eviction::kSwapped && !is_out_[value]) {
    is_out_[value] = true;
    outside_ += bytes(best->value);
  }
  return true;
}

std::optional<Worth> Capuchin::worth_of_swap(const Gap& gap) const {
  const bool is_out = is_out_[static_cast<std::size_t>(gap.value)];
  const Bytes more = is_out ? Bytes(0) : bytes(gap.value);
  if (!freedom_.may_copy || outside_ + more > problem_.capacity) return std::nullopt;
  const graph::NodeCost& cost = problem_.cost(gap.value);
  const Seconds between =
      begins_[static_cast<std::size_t>(gap.to)] - begins_[static_cast<std::size_t>(gap.from) + 1];
  const double spare = (between - (is_out ? Seconds(0) : cost.out) - cost.in).count();
  if (spare >= 0) return Worth{true, spare};
  return Worth{false, static_cast<double>(bytes(gap.value).count()) / -spare};
}

std::optional<Worth> Capuchin::worth_of_recomputing(const Gap& gap) const {
  if (!freedom_.may_recompute) return std::nullopt;
  std::vector<bool> is_made(problem_.graph.nodes.size());
  const Seconds time = time_to_make(gap.value, gap.to, is_made);
  const double seconds = std::max(time.count(), std::numeric_limits<double>::min());
  return Worth{false, static_cast<double>(bytes(gap.value).count()) / seconds};
}

// With all inputs that are not in memory in that step, each once.
Seconds Capuchin::time_to_make(int value, int step, std::vector<bool>& is_made) const {
  is_made[static_cast<std::size_t>(value)] = true;
  Seconds time = problem_.cost(value).time;
  for (const int input : problem_.graph.node(value).inputs) {
    const Gap* const gap = gap_at(input, step);
    const bool is_here = gap != nullptr && gap->eviction == Eviction::kNone;
    if (is_here || is_made[static_cast<std::size_t>(input)]) continue;
    if (is_out_[static_cast<std::size_t>(input)]) {
      time += problem_.cost(input).in;
    } else {
      time += time_to_make(input, step, is_made);
    }
  }
  return time;
}

const Gap* Capuchin::gap_at(int value, int step) const {
  const auto found = std::find_if(gaps_.begin(), gaps_.end(), [&](const Gap& gap) {
    return gap.value == value && gap.from < step && gap.to >= step;
  });
  return found == gaps_.end() ? nullptr : &*found;
}

Schedule Capuchin::schedule() const {
  return tidied(problem_.graph, Writing(problem_.graph, gaps_, is_out_).run());
}

Result Capuchin::solution(const Schedule& schedule) const {
  Solution solution{.schedule = schedule,
                    .outcome = replay(problem_, schedule).outcome,
                    .bound = least_value(problem_, freedom_.objective)};
  if (problem_.lanes == graph::Lanes::kBeside) {
    const Schedule early = spread(problem_, schedule);
    const graph::Outcome outcome = replay(problem_, early).outcome;
    if (outcome.time < solution.outcome.time) {
      solution.schedule = early;
      solution.outcome = outcome;
    }
  }
  if (is_in_time(problem_, solution.outcome)) return solution;
  return Infeasible{.is_proven = false,
                    .node = widest(problem_.graph).node,
                    .least_memory = solution.outcome.peak,
                    .least_time = solution.outcome.time,
                    .where = concat("capuchin takes ", to_text(solution.outcome.time))};
}

// With less memory it would have evicted the same.
Infeasible Capuchin::why_not(const Schedule& schedule) const {
  Problem unlimited = problem_;
  unlimited.memory = Bytes(0);
  const Widest most = widest(problem_.graph);
  const Bytes peak = replay(unlimited, schedule).outcome.peak;
  return Infeasible{.is_proven = most.bytes > problem_.memory,
                    .node = most.node,
                    .least_memory = peak,
                    .where = concat("capuchin has evicted all that it can and holds ",
                                    to_text(peak), "; there is ", to_text(problem_.memory))};
}

Schedule Writing::run() && {
  for (int node = 0; node < graph_.size(); ++node) {
    for (const int input : graph_.node(node).inputs) bring(input);
    compute(node);
    if (is_out_[at(node)]) actions_.push_back({Op::kCopyOut, node});
    forget(node);
  }
  return std::move(actions_);
}

void Writing::bring(int value) {
  if (is_here_[at(value)]) return;
  brought_.push_back(value);
  if (is_out_[at(value)]) {
    actions_.push_back({Op::kCopyIn, value});
    is_here_[at(value)] = true;
    return;
  }
  for (const int input : graph_.node(value).inputs) bring(input);
  compute(value);
}

void Writing::compute(int node) {
  actions_.push_back({Op::kCompute, node});
  is_here_[at(node)] = true;
}

// What was brought for the step's node stays, what was brought to make that again does not.
void Writing::forget(int step) {
  const std::vector<int>& inputs = graph_.node(step).inputs;
  for (const int value : brought_) {
    if (!std::binary_search(inputs.begin(), inputs.end(), value)) is_here_[at(value)] = false;
  }
  brought_.clear();
  for (const int value : leave_[at(step)]) is_here_[at(value)] = false;
  for (const int input : inputs) {
    if (last_use_[at(input)] <= step) is_here_[at(input)] = false;
  }
}

int step_at(const Schedule& schedule, std::size_t at) {
  int step = 0;
  for (std::size_t k = 0; k < at; ++k) {
    if (schedule[k].op == Op::kCompute && schedule[k].node == step) ++step;
  }
  return step;
}

}  // namespace
}  // namespace trireme::poet
