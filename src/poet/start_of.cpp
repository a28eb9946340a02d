// From a schedule to the columns that say the same.
// SPDX-License-Identifier: Apache-2.0
#include "model.h"

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

using Key = std::tuple<Kind, int, int, int>;  ///< kind, step, node, place of an event

std::vector<int> steps_of(const Schedule& schedule);
std::set<Key> keys_of(const Problem& problem, const Model& model, const Schedule& schedule);
Key key_of_read(const Problem& problem, const Model& model, const Schedule& schedule,
                std::size_t at);

}  // namespace

Terms start_of(const Problem& problem, const Model& model, const Schedule& schedule) {
  const std::set<Key> keys = keys_of(problem, model, schedule);
  Terms start;
  for (const Event& event : model.events) {
    if (event.kind == Kind::kLeave || event.column == Event::kAlways) continue;
    const bool happens = keys.contains({event.kind, event.step, event.node, event.place});
    start.emplace_back(event.column, happens ? 1 : 0);
  }
  return start;
}

namespace {

// By action: the next node that is computed for the first time, or the action's own.
std::vector<int> steps_of(const Schedule& schedule) {
  std::vector<int> steps;
  int step = 0;
  for (const graph::Action& action : schedule) {
    steps.push_back(step);
    if (action.op == Op::kCompute && action.node == step) ++step;
  }
  return steps;
}

std::set<Key> keys_of(const Problem& problem, const Model& model, const Schedule& schedule) {
  const std::vector<int> steps = steps_of(schedule);
  std::set<Key> keys;
  for (std::size_t at = 0; at < schedule.size(); ++at) {
    const int node = schedule[at].node;
    switch (schedule[at].op) {
      case Op::kCompute:
        keys.emplace(Kind::kCompute, steps[at], node, node);
        break;
      case Op::kCopyOut:
        keys.emplace(Kind::kCopyOut, node, node, node);
        break;
      case Op::kCopyIn:
        keys.insert(key_of_read(problem, model, schedule, at));
        break;
      case Op::kDrop:
        break;
    }
  }
  return keys;
}

// Without clocks a value is read right before its next use, else where the step begins.
Key key_of_read(const Problem& problem, const Model& model, const Schedule& schedule,
                std::size_t at) {
  const std::vector<int> steps = steps_of(schedule);
  const int node = schedule[at].node;
  std::size_t use = at;
  while (use + 1 < schedule.size()) {
    const graph::Action& action = schedule[++use];
    if (action.op != Op::kCompute) continue;
    const std::vector<int>& inputs = problem.graph.node(action.node).inputs;
    if (std::binary_search(inputs.begin(), inputs.end(), node)) break;
  }
  if (model.has_clocks && steps[use] > steps[at]) {
    return {Kind::kRead, steps[at], node, Event::kBegin};
  }
  return {Kind::kRead, steps[use], node, schedule[use].node};
}

}  // namespace
}  // namespace trireme::poet
