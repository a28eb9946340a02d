// From a schedule to the columns that say the same.
// SPDX-License-Identifier: Apache-2.0
#include "model.h"
#include "steps.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>

namespace trireme::poet {
namespace {

using graph::Op;
using graph::Problem;
using graph::Schedule;
using Kind = Event::Kind;

/// Tells events apart: kind, step, node, place.
using Key = std::tuple<Kind, int, int, int>;

class Reading {
 public:
  Reading(const Problem& problem, const Schedule& schedule, bool has_clocks);
  std::set<Key> keys() const;

 private:
  Key key_of_compute(std::size_t at) const;
  Key key_of_read(std::size_t at) const;
  std::size_t next_use(std::size_t at) const;

  const Problem& problem_;
  const Schedule& schedule_;
  Steps steps_;
  bool has_clocks_;
  std::vector<int> step_of_;  ///< by action: the next first computation, or its own
};

}  // namespace

Terms start_of(const Problem& problem, const Model& model, const Schedule& schedule) {
  const std::set<Key> keys = Reading(problem, schedule, model.has_clocks).keys();
  Terms start;
  std::vector<bool> is_needed(problem.graph.nodes.size(), false);
  for (auto event = model.events.rbegin(); event != model.events.rend(); ++event) {
    const auto node = static_cast<std::size_t>(event->node);
    if (event->kind == Kind::kLeave) {
      if (event->column != Event::kNever && !model.has_clocks)
        start.emplace_back(event->column, is_needed[node] ? 1 : 0);
      continue;
    }
    const bool happens = event->column == Event::kAlways ||
                         keys.contains({event->kind, event->step, event->node, event->place});
    if (event->column != Event::kAlways) start.emplace_back(event->column, happens ? 1 : 0);
    if (!happens || event->kind == Kind::kCopyOut) continue;
    is_needed[node] = false;
    if (event->kind == Kind::kRead) continue;
    for (const int input : problem.graph.node(event->node).inputs)
      is_needed[static_cast<std::size_t>(input)] = true;
  }
  return start;
}

namespace {

Reading::Reading(const Problem& problem, const Schedule& schedule, bool has_clocks)
    : problem_(problem),
      schedule_(schedule),
      steps_(problem.graph, std::vector<bool>(problem.graph.nodes.size(), true)),
      has_clocks_(has_clocks) {
  int step = 0;
  for (const graph::Action& action : schedule) {
    step_of_.push_back(step);
    if (action.op == Op::kCompute && action.node == step) ++step;
  }
}

std::set<Key> Reading::keys() const {
  std::set<Key> keys;
  for (std::size_t at = 0; at < schedule_.size(); ++at) {
    const int node = schedule_[at].node;
    switch (schedule_[at].op) {
      case Op::kCompute:
        keys.insert(key_of_compute(at));
        break;
      case Op::kCopyOut:
        keys.emplace(Kind::kCopyOut, node, node, node);
        break;
      case Op::kCopyIn:
        keys.insert(key_of_read(at));
        break;
      case Op::kDrop:
        break;
    }
  }
  return keys;
}

// A source is made again right before its next use, others at their own place.
Key Reading::key_of_compute(std::size_t at) const {
  const int node = schedule_[at].node;
  if (node == step_of_[at] || !steps_.is_source(node)) {
    return {Kind::kCompute, step_of_[at], node, node};
  }
  const std::size_t use = next_use(at);
  return {Kind::kCompute, step_of_[use], node, schedule_[use].node};
}

// A value is read right before its next use; with clocks, if that is in a later step, where the
// step of the read begins.
Key Reading::key_of_read(std::size_t at) const {
  const int node = schedule_[at].node;
  const std::size_t use = next_use(at);
  if (has_clocks_ && step_of_[use] > step_of_[at]) {
    return {Kind::kRead, step_of_[at], node, Event::kBegin};
  }
  return {Kind::kRead, step_of_[use], node, schedule_[use].node};
}

// The next computation that reads the action's node; the last action if none does.
std::size_t Reading::next_use(std::size_t at) const {
  std::size_t use = at;
  while (use + 1 < schedule_.size()) {
    const graph::Action& action = schedule_[++use];
    if (action.op != Op::kCompute) continue;
    const std::vector<int>& inputs = problem_.graph.node(action.node).inputs;
    if (std::binary_search(inputs.begin(), inputs.end(), schedule_[at].node)) break;
  }
  return use;
}

}  // namespace
}  // namespace trireme::poet
