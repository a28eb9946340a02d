// Labels over the states of a machine: which values are in memory, which are outside, which node
// is computed for the first time next. A label says what has been paid and, where time matters, the
// clocks of processor and lanes and when copies under way end. Of two labels of a state the one
// that is nowhere better is forgotten.
// SPDX-License-Identifier: Apache-2.0
#include "exhaustive.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme::poet {
namespace {

using graph::Action;
using graph::Lanes;
using graph::NodeCost;
using graph::Op;
using graph::Problem;

struct State {
  unsigned here = 0, out = 0;
  int next = 0;
  int last = -1;          ///< computed again since the last first computation, in the graph's order
  bool is_fresh = false;  ///< the last action was a first computation

  std::uint64_t key() const {
    return (std::uint64_t{here} << 40) | (std::uint64_t{out} << 16) |
           (static_cast<std::uint64_t>(last + 1) << 8) | (static_cast<std::uint64_t>(next) << 1) |
           (is_fresh ? 1 : 0);
  }
  bool has(int node) const { return (here >> node & 1U) != 0; }
  bool has_out(int node) const { return (out >> node & 1U) != 0; }
};

struct Label {
  State state;
  double joules = 0;  ///< with those of waits so far
  double busy = 0;
  double clock = 0, out_free = 0, in_free = 0;
  std::vector<double> arrives, leaves;  ///< by node: ends of copies
  std::int64_t held = 0, outside = 0, peak = 0;
  int from = -1;
  Action action{};
  bool is_beaten = false;

  double end() const { return std::max({clock, out_free, in_free}); }
};

class Search {
 public:
  Search(const Problem& problem, const Tries& tries)
      : problem_(problem),
        tries_(tries),
        nodes_(problem.graph.size()),
        is_beside_(problem.lanes == Lanes::kBeside),
        users_(users_of(problem.graph)) {}
  std::optional<Best> run();

 private:
  void expand(int at);
  void compute(const Label& label, int at, int node);
  void copy_out(const Label& label, int at, int node);
  void copy_in(const Label& label, int at, int node);
  void drop(const Label& label, int at, int node);
  Label after(const Label& label, int at, Action action) const;
  void wait(Label& label, double until) const;
  void hold(Label& label, int node, std::int64_t transient = 0) const;
  void offer(Label label);
  bool can_run(const Label& label, int node) const;
  bool is_source(int node) const;
  bool fits(const Label& label, int node, std::int64_t transient = 0) const;
  bool is_over(const Label& label) const;
  bool time_matters() const;
  std::vector<double> figures(const Label& label) const;
  double paid(const Label& label) const;
  double value(const Label& label) const;
  void finish(int at);
  Best best() const;
  std::int64_t bytes(int node) const { return problem_.graph.node(node).bytes.count(); }
  std::int64_t transient(int node) const { return problem_.graph.node(node).transient.count(); }

  using Entry = std::pair<std::vector<double>, int>;
  const Problem& problem_;
  const Tries& tries_;
  int nodes_;
  bool is_beside_;
  std::vector<std::vector<int>> users_;
  std::vector<Label> labels_{};
  std::unordered_map<std::uint64_t, std::vector<int>> of_state_{};
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_{};
  int best_ = -1;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::optional<Best> search(const Problem& problem, const Tries& tries) {
  return Search(problem, tries).run();
}

namespace {

std::optional<Best> Search::run() {
  Label first;
  first.arrives.resize(static_cast<std::size_t>(nodes_));
  first.leaves.resize(static_cast<std::size_t>(nodes_));
  offer(std::move(first));
  while (!open_.empty()) {
    const int at = open_.top().second;
    open_.pop();
    const Label& label = labels_[static_cast<std::size_t>(at)];
    if (label.is_beaten) continue;
    if (paid(label) >= least_) break;
    label.state.next == nodes_ ? finish(at) : expand(at);
  }
  return best_ < 0 ? std::nullopt : std::optional(best());
}

void Search::expand(int at) {
  const Label label = labels_[static_cast<std::size_t>(at)];
  for (int node = 0; node < nodes_; ++node) {
    if (node > label.state.next) break;
    if (can_run(label, node) && fits(label, node, transient(node))) compute(label, at, node);
    if (node == label.state.next) break;
    const bool is_here = label.state.has(node), is_out = label.state.has_out(node);
    if (is_here) drop(label, at, node);
    if (is_here && !is_out) copy_out(label, at, node);
    if (!is_here && is_out && fits(label, node)) copy_in(label, at, node);
  }
}

bool Search::can_run(const Label& label, int node) const {
  if (label.state.has(node)) return false;
  if (node <= label.state.last && !is_source(node)) return false;
  if (node < label.state.next &&
      (!tries_.may_recompute || users_[static_cast<std::size_t>(node)].empty()))
    return false;
  const std::vector<int>& inputs = problem_.graph.node(node).inputs;
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](int input) { return label.state.has(input); });
}

bool Search::is_source(int node) const {
  const std::vector<int>& inputs = problem_.graph.node(node).inputs;
  return std::all_of(inputs.begin(), inputs.end(), [&](int input) { return bytes(input) == 0; });
}

bool Search::fits(const Label& label, int node, std::int64_t transient) const {
  return problem_.memory == Bytes(0) ||
         label.held + bytes(node) + transient <= problem_.memory.count();
}

void Search::compute(const Label& label, int at, int node) {
  const NodeCost& cost = problem_.cost(node);
  Label then = after(label, at, {Op::kCompute, node});
  for (const int input : problem_.graph.node(node).inputs) {
    wait(then, label.arrives[static_cast<std::size_t>(input)]);
  }
  then.clock += cost.time.count();
  then.busy += cost.time.count();
  then.joules += cost.energy.count();
  hold(then, node, transient(node));
  if (node == label.state.next) {
    ++then.state.next;
    then.state.is_fresh = true;
    then.state.last = -1;
  } else if (!tries_.any_order && !is_source(node)) {
    then.state.last = node;
  }
  offer(std::move(then));
}

void Search::copy_out(const Label& label, int at, int node) {
  const bool is_now = label.state.is_fresh && node == label.state.next - 1;
  if (!tries_.may_copy || users_[static_cast<std::size_t>(node)].empty() || bytes(node) == 0)
    return;
  if (!tries_.late_copies_out && !is_now) return;
  if (label.outside + bytes(node) > problem_.capacity.count()) return;
  Label then = after(label, at, {Op::kCopyOut, node});
  const double duration = problem_.cost(node).out.count();
  then.out_free = std::max(then.out_free, then.clock) + duration;
  then.leaves[static_cast<std::size_t>(node)] = then.out_free;
  if (!is_beside_) wait(then, then.out_free);
  then.joules += problem_.cost(node).out_energy.count();
  then.state.out |= 1U << node;
  then.outside += bytes(node);
  offer(std::move(then));
}

void Search::copy_in(const Label& label, int at, int node) {
  Label then = after(label, at, {Op::kCopyIn, node});
  const double earliest = std::max(then.clock, then.leaves[static_cast<std::size_t>(node)]);
  then.in_free = std::max(then.in_free, earliest) + problem_.cost(node).in.count();
  then.arrives[static_cast<std::size_t>(node)] = then.in_free;
  if (!is_beside_) wait(then, then.in_free);
  then.joules += problem_.cost(node).in_energy.count();
  hold(then, node);
  offer(std::move(then));
}

void Search::drop(const Label& label, int at, int node) {
  Label then = after(label, at, {Op::kDrop, node});
  wait(then, std::max(then.leaves[static_cast<std::size_t>(node)],
                      then.arrives[static_cast<std::size_t>(node)]));
  then.state.here &= ~(1U << node);
  then.held -= bytes(node);
  offer(std::move(then));
}

Label Search::after(const Label& label, int at, Action action) const {
  Label then = label;
  then.from = at;
  then.action = action;
  then.state.is_fresh = false;
  return then;
}

void Search::wait(Label& label, double until) const {
  if (until <= label.clock) return;
  label.joules += problem_.idle.count() * (until - label.clock);
  label.clock = until;
}

void Search::hold(Label& label, int node, std::int64_t transient) const {
  label.state.here |= 1U << node;
  label.held += bytes(node);
  label.peak = std::max(label.peak, label.held + transient);
}

void Search::offer(Label label) {
  if (is_over(label)) return;
  const std::vector<double> mine = figures(label);
  std::vector<int>& others = of_state_[label.state.key()];
  const auto no_worse = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
  };
  for (const int other : others) {
    if (no_worse(figures(labels_[static_cast<std::size_t>(other)]), mine)) return;
  }
  std::erase_if(others, [&](int other) {
    Label& beaten = labels_[static_cast<std::size_t>(other)];
    return beaten.is_beaten = no_worse(mine, figures(beaten));
  });
  others.push_back(static_cast<int>(labels_.size()));
  open_.emplace(mine, static_cast<int>(labels_.size()));
  labels_.push_back(std::move(label));
}

bool Search::is_over(const Label& label) const {
  return label.end() > problem_.deadline.count() * (1 + 1e-9);
}

bool Search::time_matters() const {
  const bool is_idle_paid =
      tries_.least == Least::kEnergy && is_beside_ && problem_.idle > Watts(0);
  return tries_.least == Least::kTime || problem_.deadline < Problem{}.deadline || is_idle_paid;
}

// What has been paid, then all that may still make a difference. Ends of copies matter for what is
// in memory, and only where they are later than now.
std::vector<double> Search::figures(const Label& label) const {
  std::vector<double> figures{paid(label)};
  if (!time_matters()) return figures;
  figures.push_back(label.clock);
  if (!is_beside_) return figures;
  for (const double end : {label.out_free, label.in_free}) {
    figures.push_back(std::max(end, label.clock));
  }
  for (int node = 0; node < label.state.next; ++node) {
    const bool is_here = label.state.has(node);
    for (const auto* ends : {&label.arrives, &label.leaves}) {
      const double end = is_here ? (*ends)[static_cast<std::size_t>(node)] : 0;
      figures.push_back(std::max(end, label.clock));
    }
  }
  return figures;
}

double Search::paid(const Label& label) const {
  switch (tries_.least) {
    case Least::kTime:
      return label.clock;
    case Least::kEnergy:
      return label.joules;
    case Least::kMemory:
      return static_cast<double>(label.peak);
  }
  return 0;
}

double Search::value(const Label& label) const {
  switch (tries_.least) {
    case Least::kTime:
      return label.end();
    case Least::kEnergy:
      return label.joules + problem_.idle.count() * (label.end() - label.clock);
    case Least::kMemory:
      return static_cast<double>(label.peak);
  }
  return 0;
}

void Search::finish(int at) {
  const double reached = value(labels_[static_cast<std::size_t>(at)]);
  if (reached >= least_) return;
  least_ = reached;
  best_ = at;
}

Best Search::best() const {
  const Label& last = labels_[static_cast<std::size_t>(best_)];
  Best best{.time = Seconds(last.end()), .peak = Bytes(last.peak)};
  best.energy = Joules(last.joules) + problem_.idle * Seconds(last.end() - last.clock);
  for (int at = best_; labels_[static_cast<std::size_t>(at)].from >= 0;) {
    best.schedule.push_back(labels_[static_cast<std::size_t>(at)].action);
    at = labels_[static_cast<std::size_t>(at)].from;
  }
  std::reverse(best.schedule.begin(), best.schedule.end());
  return best;
}

}  // namespace
}  // namespace trireme::poet
