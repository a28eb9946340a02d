// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include "clocks.h"
#include "scale.h"
#include "steps.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace trireme::poet {
namespace {

using graph::Lanes;
using graph::NodeCost;
using graph::Problem;
using Kind = Event::Kind;

class Builder {
 public:
  Builder(const Problem& problem, const Question& question);
  Model build() &&;

 private:
  void step(int t);
  void begin_copies(int t);
  void place(int t, int node);
  int read(int t, int node, int place);
  int make_source(int t, int node, int place);
  int make_again(int node);
  int make_first(int node);
  void only_for(int again, const std::vector<int>& arrivals);
  int come(int node, double price);
  void use(int input, int again);
  void hold(int t, int place, int again);
  void leave(int t, int node, int place);
  void copy_out(int node);
  void limit_offload();
  void limit_time();
  double price_of_copy(Joules energy, Seconds time) const;
  double price_of_compute(const NodeCost& cost) const;

  void event(const Event& event) { model_.events.push_back(event); }
  bool can_copy(int node) const { return out_[static_cast<std::size_t>(node)] >= 0; }
  bool is_in_turn() const { return problem_.lanes == Lanes::kInTurn; }
  Terms& here(int node) { return here_[static_cast<std::size_t>(node)]; }
  double bytes(int node) const { return scale_(problem_.graph.node(node).bytes); }

  const Problem& problem_;
  const Question& question_;
  Scale scale_;
  Steps steps_;
  Model model_{};
  Milp& milp_ = model_.milp;
  std::vector<Terms> here_;  ///< by node: columns whose sum is 1 where it is in memory now
  std::vector<int> out_;     ///< by node: its copy out; -1: never
  int peak_ = -1;            ///< with the aim of least memory
  Terms time_{}, offloaded_{};
  std::optional<Clocks> clocks_{};
};

/// By node: nothing that alone costs more than the excess is in a schedule of interest.
std::vector<bool> may_be_made_again(const Problem& problem, const Question& question);
bool may_be_copied(const Problem& problem, const Question& question, int node);

/// Adds `more` times `factor`.
void add(Terms& terms, const Terms& more, double factor);

// Only where time counts.
bool has_clocks(const Problem& problem, const Question& question) {
  if (problem.lanes == Lanes::kInTurn) return false;
  const bool is_idle_paid = question.aim == Aim::kEnergy && problem.idle > Watts(0);
  return question.aim == Aim::kTime || is_idle_paid || problem.deadline.count() < kUnbounded;
}

}  // namespace

Model model_of(const Problem& problem, const Question& question) {
  return Builder(problem, question).build();
}

void make_whole(Model& model) {
  for (const Event& event : model.events) {
    const bool stays = event.kind == Kind::kLeave && event.column != Event::kNever;
    if (stays) model.milp.columns[static_cast<std::size_t>(event.column)].is_integer = true;
  }
}

namespace {

Builder::Builder(const Problem& problem, const Question& question)
    : problem_(problem),
      question_(question),
      scale_(scale_of(problem, question)),
      steps_(problem.graph, may_be_made_again(problem, question)),
      here_(problem.graph.nodes.size()),
      out_(problem.graph.nodes.size(), -1) {
  model_.aim = question.aim;
  model_.unit = 1 / scale_.objective;
  if (question.aim == Aim::kMemory) peak_ = milp_.column({1, 0, kUnbounded, false});
  model_.has_clocks = has_clocks(problem, question);
  if (model_.has_clocks) clocks_.emplace(problem, question, scale_, milp_);
}

Model Builder::build() && {
  for (int t = 0; t < steps_.count(); ++t) step(t);
  limit_offload();
  if (clocks_) clocks_->end();
  if (is_in_turn()) limit_time();
  return std::move(model_);
}

void Builder::step(int t) {
  if (clocks_) begin_copies(t);
  for (const int node : steps_.places(t)) place(t, node);
}

// With lanes beside compute a value whose copy out has ended may leave with the step; then a copy
// in may begin, before it is needed.
void Builder::begin_copies(int t) {
  clocks_->pause();
  const auto first = static_cast<std::ptrdiff_t>(model_.events.size());
  for (const int node : steps_.useful_by_next_use(t)) {
    if (!can_copy(node)) continue;
    read(t, node, Event::kBegin);
    leave(t, node, node);
  }
  std::stable_partition(model_.events.begin() + first, model_.events.end(),
                        [](const Event& event) { return event.kind == Kind::kLeave; });
}

void Builder::place(int t, int node) {
  const std::vector<int>& inputs = steps_.inputs(node);
  std::vector<int> arrivals;
  for (const int input : inputs) {
    if (can_copy(input)) arrivals.push_back(read(t, input, node));
    if (steps_.is_source(input) && steps_.may_be_made_again(input)) {
      arrivals.push_back(make_source(t, input, node));
    }
  }
  const int again = node < t ? make_again(node) : make_first(node);
  if (node < t) only_for(again, arrivals);
  event({Kind::kCompute, t, node, node, again});
  for (const int input : inputs) use(input, again);
  hold(t, node, again);
  if (clocks_) clocks_->compute(node, again, inputs);
  if (node == t) copy_out(t);
  for (const int input : inputs) leave(t, input, node);
  if (problem_.graph.node(node).bytes > Bytes(0)) leave(t, node, node);
}

// A copy in, of a value that is not in memory but outside.
int Builder::read(int t, int node, int place) {
  const NodeCost& cost = problem_.cost(node);
  const int column = come(node, price_of_copy(cost.in_energy, cost.in));
  milp_.at_most({{column, 1}, {out_[static_cast<std::size_t>(node)], -1}}, 0);
  time_.emplace_back(column, scale_(cost.in));
  event({Kind::kRead, t, node, place, column});
  if (clocks_) clocks_->read(node, column);
  return column;
}

int Builder::make_source(int t, int node, int place) {
  const int column = make_again(node);
  event({Kind::kCompute, t, node, place, column});
  if (clocks_) clocks_->compute(node, column, {});
  return column;
}

int Builder::make_again(int node) {
  const NodeCost& cost = problem_.cost(node);
  const int column = come(node, price_of_compute(cost));
  time_.emplace_back(column, scale_(cost.time));
  return column;
}

// Always, so that it is a constant of the sums.
int Builder::make_first(int node) {
  milp_.offset += price_of_compute(problem_.cost(node));
  return Event::kAlways;
}

// What comes right before a place is for what is made there. Without these rows the best schedule
// is the same, but a bound far weaker.
void Builder::only_for(int again, const std::vector<int>& arrivals) {
  for (const int arrival : arrivals) milp_.at_most({{arrival, 1}, {again, -1}}, 0);
}

// The value comes to memory where it was not.
int Builder::come(int node, double price) {
  const int column = milp_.binary(price);
  here(node).emplace_back(column, 1);
  milp_.at_most(here(node), 1);
  return column;
}

void Builder::use(int input, int again) {
  Terms terms = here(input);
  if (again != Event::kAlways) terms.emplace_back(again, -1);
  milp_.at_least(again == Event::kAlways ? 1 : 0, terms);
}

// Memory while the place's node is made: a knapsack of all that is there.
void Builder::hold(int t, int place, int again) {
  if (scale_.memory == kUnbounded && peak_ < 0) return;
  Terms terms;
  for (const int node : steps_.useful(t)) add(terms, here(node), bytes(node));
  if (peak_ >= 0) terms.emplace_back(peak_, -1);
  const double transient = scale_(problem_.graph.node(place).transient);
  for (auto& [column, factor] : terms)
    if (column == again) factor += transient;
  const double first = place == t ? bytes(t) + transient : 0;
  milp_.at_most(terms, (peak_ < 0 ? scale_.memory : 0) - first);
}

// After a place: the value stays for a later one, or leaves.
void Builder::leave(int t, int node, int place) {
  const Terms before = std::exchange(here(node), {});
  int stays = Event::kNever;
  if (steps_.is_useful(t + 1, node) || steps_.has_later_place(t, node, place)) {
    stays = milp_.column({0, 0, 1, clocks_ && can_copy(node)});
    here(node).emplace_back(stays, 1);
    Terms terms{{stays, 1}};
    add(terms, before, -1);
    if (node < t) milp_.at_most(terms, 0);
    if (clocks_) clocks_->leave(node, stays);
  }
  event({Kind::kLeave, t, node, place, stays});
}

void Builder::copy_out(int node) {
  const Bytes size = problem_.graph.node(node).bytes;
  const bool is_possible = size > Bytes(0) && size <= problem_.capacity;
  if (!is_possible || !may_be_copied(problem_, question_, node) ||
      !steps_.is_useful(node + 1, node))
    return;
  const NodeCost& cost = problem_.cost(node);
  const int column = milp_.binary(price_of_copy(cost.out_energy, cost.out));
  out_[static_cast<std::size_t>(node)] = column;
  offloaded_.emplace_back(column, bytes(node));
  time_.emplace_back(column, scale_(cost.out));
  event({Kind::kCopyOut, node, node, node, column});
  if (clocks_) clocks_->copy_out(node, column);
}

void Builder::limit_offload() {
  const double capacity = scale_(problem_.capacity);
  double all = 0;
  for (const auto& [column, size] : offloaded_) all += size;
  if (all > capacity) milp_.at_most(offloaded_, capacity + scale_.half_a_unit);
}

// In turn: the sum of all that is done.
void Builder::limit_time() {
  if (problem_.deadline.count() == kUnbounded) return;
  Seconds first{0};
  for (const NodeCost& cost : problem_.costs) first += cost.time;
  milp_.at_most(time_, scale_(problem_.deadline * (1 + kSlack) - first));
}

// Nothing is computed during a copy in turn. With lanes beside compute the end of the step has the
// price of its time, and what is computed takes away from the idle part of it.
double Builder::price_of_copy(Joules energy, Seconds time) const {
  if (question_.aim == Aim::kMemory) return 0;
  if (question_.aim == Aim::kTime) return is_in_turn() ? scale_.objective * time.count() : 0;
  if (is_in_turn()) energy += problem_.idle * time;
  return scale_.objective * energy.count();
}

double Builder::price_of_compute(const NodeCost& cost) const {
  if (question_.aim != Aim::kEnergy) return price_of_copy(cost.energy, cost.time);
  const Joules idle = is_in_turn() ? Joules(0) : problem_.idle * cost.time;
  return scale_.objective * (cost.energy - idle).count();
}

std::vector<bool> may_be_made_again(const Problem& problem, const Question& question) {
  std::vector<bool> may;
  for (const NodeCost& cost : problem.costs) {
    const double least = question.aim == Aim::kTime ? cost.time.count() : cost.energy.count();
    may.push_back(question.may_recompute &&
                  (question.aim == Aim::kMemory || least <= question.excess));
  }
  return may;
}

// Out, and at least once in; beside compute copies may take no time of the step.
bool may_be_copied(const Problem& problem, const Question& question, int node) {
  if (!question.may_copy || question.aim == Aim::kMemory) return question.may_copy;
  const NodeCost& cost = problem.cost(node);
  const Seconds time = problem.lanes == Lanes::kInTurn ? cost.out + cost.in : Seconds(0);
  const Joules energy = cost.out_energy + cost.in_energy + problem.idle * time;
  return (question.aim == Aim::kTime ? time.count() : energy.count()) <= question.excess;
}

void add(Terms& terms, const Terms& more, double factor) {
  for (const auto& [column, value] : more) terms.emplace_back(column, value * factor);
}

}  // namespace
}  // namespace trireme::poet
