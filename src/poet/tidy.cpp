// SPDX-License-Identifier: Apache-2.0
#include "tidy.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trireme::poet {
namespace {

using graph::Action;
using graph::Op;
using graph::Problem;
using graph::Schedule;

std::vector<bool> first_computations(const graph::Graph& graph, const Schedule& actions);

/// Goes from the end to the beginning, so that it is known what is needed later.
class Tidying {
 public:
  Tidying(const graph::Graph& graph, const Schedule& actions)
      : graph_(graph),
        actions_(actions),
        is_first_(first_computations(graph, actions)),
        is_needed_(graph.nodes.size()),
        is_read_(graph.nodes.size()) {}
  Schedule run() &&;

 private:
  bool is_useful(std::size_t at) const;
  void use(int node);

  const graph::Graph& graph_;
  const Schedule& actions_;
  std::vector<bool> is_first_;   ///< by action
  std::vector<bool> is_needed_;  ///< by node: where the visit is now
  std::vector<bool> is_read_;    ///< by node: read back later
  Schedule backwards_{};
};

/// Moves copies in to earlier places and drops to later ones.
class Spreading {
 public:
  Spreading(const Problem& problem, const Schedule& schedule);
  Schedule run() &&;

 private:
  void begin_earlier(std::size_t at);
  void drop_later(std::size_t at);
  bool swap_with_next(std::size_t at);
  bool fits(Bytes held) const { return problem_.memory == Bytes(0) || held <= problem_.memory; }
  Bytes change(const Action& action) const;
  Bytes transient(const Action& action) const;
  Seconds time(const Action& action) const;

  const Problem& problem_;
  Schedule schedule_;
  std::vector<Bytes> held_{};  ///< by action, after it
};

}  // namespace

Schedule tidied(const graph::Graph& graph, const Schedule& actions) {
  return Tidying(graph, actions).run();
}

Schedule spread(const Problem& problem, const Schedule& schedule) {
  return Spreading(problem, schedule).run();
}

namespace {

std::vector<bool> first_computations(const graph::Graph& graph, const Schedule& actions) {
  std::vector<bool> is_first, is_made(graph.nodes.size());
  for (const Action& action : actions) {
    const auto node = static_cast<std::size_t>(action.node);
    is_first.push_back(action.op == Op::kCompute && !is_made[node]);
    if (action.op == Op::kCompute) is_made[node] = true;
  }
  return is_first;
}

Schedule Tidying::run() && {
  for (std::size_t at = actions_.size(); at-- > 0;) {
    const Action& action = actions_[at];
    const auto node = static_cast<std::size_t>(action.node);
    if (!is_useful(at)) continue;
    use(action.node);
    if (action.op == Op::kCompute) {
      for (const int input : graph_.node(action.node).inputs) use(input);
    }
    if (action.op != Op::kCopyOut) is_needed_[node] = false;
    if (action.op == Op::kCopyIn) is_read_[node] = true;
    backwards_.push_back(action);
  }
  std::reverse(backwards_.begin(), backwards_.end());
  return std::move(backwards_);
}

bool Tidying::is_useful(std::size_t at) const {
  const auto node = static_cast<std::size_t>(actions_[at].node);
  switch (actions_[at].op) {
    case Op::kCompute:
      return is_first_[at] || is_needed_[node];
    case Op::kCopyIn:
      return is_needed_[node];
    case Op::kCopyOut:
      return is_read_[node];
    case Op::kDrop:
      return false;
  }
  return false;
}

// Where nothing later needs it, it is dropped after this action.
void Tidying::use(int node) {
  if (!is_needed_[static_cast<std::size_t>(node)]) backwards_.push_back({Op::kDrop, node});
  is_needed_[static_cast<std::size_t>(node)] = true;
}

Spreading::Spreading(const Problem& problem, const Schedule& schedule)
    : problem_(problem), schedule_(schedule) {
  Bytes held{0};
  for (const Action& action : schedule) held_.push_back(held += change(action));
}

Schedule Spreading::run() && {
  for (std::size_t at = 0; at < schedule_.size(); ++at) {
    if (schedule_[at].op == Op::kCopyIn) begin_earlier(at);
  }
  for (std::size_t at = schedule_.size(); at-- > 0;) {
    if (schedule_[at].op == Op::kDrop) drop_later(at);
  }
  return std::move(schedule_);
}

void Spreading::begin_earlier(std::size_t at) {
  const int node = schedule_[at].node;
  Seconds hidden{0};
  while (at > 0 && hidden < problem_.cost(node).in) {
    const Action before = schedule_[at - 1];
    if (before.node == node || before.op == Op::kCopyIn || !swap_with_next(at - 1)) return;
    hidden += time(before);
    --at;
  }
}

// Only of what is being copied out.
void Spreading::drop_later(std::size_t at) {
  const int node = schedule_[at].node;
  Seconds left = problem_.cost(node).out;
  std::size_t out = at;
  while (out > 0 && schedule_[out] != Action{Op::kCopyOut, node}) left -= time(schedule_[out--]);
  if (schedule_[out] != Action{Op::kCopyOut, node}) return;
  while (at + 1 < schedule_.size() && left > Seconds(0)) {
    const Action next = schedule_[at + 1];
    if (next.node == node || !swap_with_next(at)) return;
    left -= time(next);
    ++at;
  }
}

// If there is memory for the later action before the earlier one.
bool Spreading::swap_with_next(std::size_t at) {
  const Action &earlier = schedule_[at], &later = schedule_[at + 1];
  const Bytes held = held_[at] - change(earlier) + change(later);
  if (!fits(held + transient(later)) || !fits(held_[at + 1] + transient(earlier))) return false;
  std::swap(schedule_[at], schedule_[at + 1]);
  held_[at] = held;
  return true;
}

Bytes Spreading::change(const Action& action) const {
  const Bytes size = problem_.graph.node(action.node).bytes;
  if (action.op == Op::kDrop) return -size;
  return action.op == Op::kCopyOut ? Bytes(0) : size;
}

Bytes Spreading::transient(const Action& action) const {
  return action.op == Op::kCompute ? problem_.graph.node(action.node).transient : Bytes(0);
}

Seconds Spreading::time(const Action& action) const {
  return action.op == Op::kCompute ? problem_.cost(action.node).time : Seconds(0);
}

}  // namespace
}  // namespace trireme::poet
