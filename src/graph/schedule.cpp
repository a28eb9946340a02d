// Replay: a schedule's memory in its order, and its time on one lane or three.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/schedule.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::graph {
namespace {

/// A node's output while a schedule runs.
struct Value {
  bool computed = false;        ///< at least once
  bool here = false;            ///< in memory, or on its way there
  bool out = false;             ///< in the offload tier, or on its way there
  Seconds arrives{0}, left{0};  ///< when its latest copy in ends, and its copy out
};

class Run {
 public:
  explicit Run(const Problem& problem) : problem_(problem), values_(problem.graph.nodes.size()) {}

  /// Why the action cannot run now; nothing if it can.
  std::optional<std::string> refusal(const Action& action) const;
  void perform(const Action& action);
  /// Why the schedule may not end here.
  std::optional<std::string> unfinished() const;
  Replayed result() &&;

 private:
  std::optional<std::string> refused_compute(int node) const;
  std::optional<std::string> refused_copy_out(int node) const;
  std::optional<std::string> refused_copy_in(int node) const;
  std::optional<std::string> refused_drop(int node) const;
  std::optional<std::string> no_room(int node, Bytes transient) const;
  void compute(int node);
  void copy_out(int node);
  void copy_in(int node);
  void drop(int node);
  Span on_lane(Seconds& lane, Seconds earliest, Seconds duration);
  void hold(int node, Bytes transient);
  void record(Span span, Bytes transient = {});

  const Value& value(int node) const { return values_[static_cast<std::size_t>(node)]; }
  Value& value(int node) { return values_[static_cast<std::size_t>(node)]; }
  const Node& node(int index) const { return problem_.graph.node(index); }
  bool in_turn() const { return problem_.lanes == Lanes::kInTurn; }

  const Problem& problem_;
  std::vector<Value> values_;
  int next_ = 0;  ///< the first node that was never computed
  Bytes held_{0};
  Seconds clock_{0};                  ///< of the processor
  Seconds out_free_{0}, in_free_{0};  ///< when the lanes have done all that they were given
  Replayed done_{};
};

}  // namespace

Replayed replay(const Problem& problem, const Schedule& schedule) {
  ensure(problem.costs.size() == problem.graph.nodes.size(), "every node has its costs");
  Run run(problem);
  for (std::size_t index = 0; index < schedule.size(); ++index) {
    if (auto reason = run.refusal(schedule[index])) return {.fault = Fault{index, *reason}};
    run.perform(schedule[index]);
  }
  if (auto reason = run.unfinished()) return {.fault = Fault{schedule.size(), *reason}};
  return std::move(run).result();
}

Schedule keep_all(const Graph& graph) {
  const std::vector<std::vector<int>> users = users_of(graph);
  const auto last_use = [&](int node) {
    const std::vector<int>& readers = users[static_cast<std::size_t>(node)];
    return readers.empty() ? node : readers.back();
  };
  Schedule schedule;
  for (int node = 0; node < graph.size(); ++node) {
    schedule.push_back({Op::kCompute, node});
    for (const int input : graph.node(node).inputs) {
      if (last_use(input) == node) schedule.push_back({Op::kDrop, input});
    }
    if (last_use(node) == node) schedule.push_back({Op::kDrop, node});
  }
  return schedule;
}

namespace {

std::optional<std::string> Run::refusal(const Action& action) const {
  if (action.node < 0 || action.node >= problem_.graph.size()) {
    return concat("there is no node ", action.node);
  }
  switch (action.op) {
    case Op::kCompute:
      return refused_compute(action.node);
    case Op::kCopyOut:
      return refused_copy_out(action.node);
    case Op::kCopyIn:
      return refused_copy_in(action.node);
    case Op::kDrop:
      return refused_drop(action.node);
  }
  ensure(false, "an action has one of these operations");
  return std::nullopt;
}

std::optional<std::string> Run::refused_compute(int index) const {
  if (index > next_) return concat(node(index).name, " comes before ", node(next_).name);
  if (value(index).here) return concat(node(index).name, " is in memory already");
  for (const int input : node(index).inputs) {
    if (!value(input).here) return concat("input ", node(input).name, " is not in memory");
  }
  return no_room(index, node(index).transient);
}

std::optional<std::string> Run::refused_copy_out(int index) const {
  if (!value(index).here) return concat(node(index).name, " is not in memory");
  if (value(index).out) return concat(node(index).name, " is in the offload tier already");
  const Bytes after = done_.outcome.offloaded + node(index).bytes;
  if (after <= problem_.capacity && problem_.capacity > Bytes(0)) return std::nullopt;
  return concat("the offload tier would hold ", to_text(after), " of ", to_text(problem_.capacity));
}

std::optional<std::string> Run::refused_copy_in(int index) const {
  if (value(index).here) return concat(node(index).name, " is in memory already");
  if (!value(index).out) return concat(node(index).name, " is not in the offload tier");
  return no_room(index, Bytes(0));
}

std::optional<std::string> Run::refused_drop(int index) const {
  if (value(index).here) return std::nullopt;
  return concat(node(index).name, " is not in memory");
}

std::optional<std::string> Run::no_room(int index, Bytes transient) const {
  const Bytes after = held_ + node(index).bytes + transient;
  if (problem_.memory == Bytes(0) || after <= problem_.memory) return std::nullopt;
  return concat("with ", node(index).name, " memory would hold ", to_text(after), " of ",
                to_text(problem_.memory));
}

void Run::perform(const Action& action) {
  switch (action.op) {
    case Op::kCompute:
      return compute(action.node);
    case Op::kCopyOut:
      return copy_out(action.node);
    case Op::kCopyIn:
      return copy_in(action.node);
    case Op::kDrop:
      return drop(action.node);
  }
}

void Run::compute(int index) {
  Outcome& outcome = done_.outcome;
  const NodeCost& cost = problem_.cost(index);
  for (const int input : node(index).inputs) clock_ = std::max(clock_, value(input).arrives);
  if (value(index).computed) {
    outcome.recompute += cost.time;
    outcome.recompute_energy += cost.energy;
  }
  outcome.busy += cost.time;
  outcome.compute += cost.energy;
  value(index).computed = true;
  next_ = std::max(next_, index + 1);
  hold(index, node(index).transient);
  record({clock_, clock_ + cost.time}, node(index).transient);
  clock_ += cost.time;
}

void Run::copy_out(int index) {
  const NodeCost& cost = problem_.cost(index);
  const Span span = on_lane(out_free_, clock_, cost.out);
  value(index).out = true;
  value(index).left = span.end;
  done_.outcome.offloaded += node(index).bytes;
  done_.outcome.copies += cost.out_energy;
  record(span);
}

void Run::copy_in(int index) {
  const NodeCost& cost = problem_.cost(index);
  const Span span = on_lane(in_free_, std::max(clock_, value(index).left), cost.in);
  value(index).arrives = span.end;
  done_.outcome.copies += cost.in_energy;
  hold(index, Bytes(0));
  record(span);
}

void Run::drop(int index) {
  clock_ = std::max({clock_, value(index).left, value(index).arrives});
  value(index).here = false;
  held_ -= node(index).bytes;
  record({clock_, clock_});
}

// In turn the processor itself copies.
Span Run::on_lane(Seconds& lane, Seconds earliest, Seconds duration) {
  const Seconds start = std::max(lane, earliest);
  lane = start + duration;
  if (in_turn()) clock_ = lane;
  return {start, lane};
}

void Run::hold(int index, Bytes transient) {
  value(index).here = true;
  held_ += node(index).bytes;
  if (held_ + transient <= done_.outcome.peak) return;
  done_.outcome.peak = held_ + transient;
  done_.outcome.peak_at = done_.spans.size();
}

void Run::record(Span span, Bytes transient) {
  done_.spans.push_back(span);
  done_.held.push_back(held_ + transient);
}

std::optional<std::string> Run::unfinished() const {
  if (next_ == problem_.graph.size()) return std::nullopt;
  return concat(node(next_).name, " is never computed");
}

Replayed Run::result() && {
  Outcome& outcome = done_.outcome;
  outcome.time = std::max({clock_, out_free_, in_free_});
  outcome.idle = problem_.idle * std::max(Seconds(0), outcome.time - outcome.busy);
  return std::move(done_);
}

}  // namespace
}  // namespace trireme::graph
