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
  Spreading(const Problem& problem, const Schedule& schedule)
      : problem_(problem), schedule_(schedule), held_(replay(problem, schedule).held) {}
  Schedule run() &&;

 private:
  void begin_earlier(std::size_t at);
  void drop_later(std::size_t at);
  bool fits(std::size_t at, Bytes more) const;
  Seconds time(const Action& action) const;
  void swap_with_next(std::size_t at);

  const Problem& problem_;
  Schedule schedule_;
  std::vector<Bytes> held_;  ///< by action, while it runs
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
    const Action& before = schedule_[at - 1];
    if (before.node == node || before.op == Op::kCopyIn) return;
    if (!fits(at - 1, problem_.graph.node(node).bytes)) return;
    hidden += time(before);
    --at;
    swap_with_next(at);
    held_[at] = held_[at + 1];
    held_[at + 1] += problem_.graph.node(node).bytes;
  }
}

// Only of what is being copied out.
void Spreading::drop_later(std::size_t at) {
  const int node = schedule_[at].node;
  Seconds left{0};
  for (std::size_t k = at; k-- > 0 && schedule_[k].node != node;) left -= time(schedule_[k]);
  const auto is_out = [&](const Action& action) {
    return action.op == Op::kCopyOut && action.node == node;
  };
  const auto end = schedule_.begin() + static_cast<std::ptrdiff_t>(at);
  if (at == 0 || std::find_if(schedule_.begin(), end, is_out) == end) return;
  left += problem_.cost(node).out;
  while (at + 1 < schedule_.size() && left > Seconds(0)) {
    const Action& next = schedule_[at + 1];
    if (next.node == node || !fits(at + 1, problem_.graph.node(node).bytes)) return;
    left -= time(next);
    swap_with_next(at);
    held_[at] = held_[at + 1] + problem_.graph.node(node).bytes;
    ++at;
  }
}

bool Spreading::fits(std::size_t at, Bytes more) const {
  return problem_.memory == Bytes(0) || held_[at] + more <= problem_.memory;
}

Seconds Spreading::time(const Action& action) const {
  return action.op == Op::kCompute ? problem_.cost(action.node).time : Seconds(0);
}

void Spreading::swap_with_next(std::size_t at) {
  std::swap(schedule_[at], schedule_[at + 1]);
}

}  // namespace
}  // namespace trireme::poet
