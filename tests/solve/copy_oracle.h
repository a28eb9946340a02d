// The best program with copies of whole tensors by trying everything on tiny chains: every memory-
// persistent schedule, every choice of what is offloaded, every place for each offload in the
// forward list and for each prefetch in the backward one; replay judges. It knows nothing of plans.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/simulate/replay.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace trireme::solve {

class CopyOracle {
 public:
  enum class Copies { kInOrder, kAnywhere };
  CopyOracle(const Problem& problem, bool recompute, Copies copies)
      : problem_(problem),
        chain_(*problem.chain),
        recompute_(recompute),
        in_order_(copies == Copies::kInOrder) {}

  /// Seconds; infinity if nothing fits.
  double best() {
    cut({.i = problem_.first_layer});
    return best_;
  }

 private:
  using Actions = std::vector<program::Action>;
  using Op = program::Op;
  struct Kept {
    int layer;
    bool taped;
  };
  // Layers before i are decided on.
  struct Schedule {
    int i = 1;
    bool taped = false;
    Actions forward{}, backward{};
    std::vector<Kept> kept{};
  };

  void cut(const Schedule& schedule) {
    const int i = schedule.i;
    if (i > problem_.last_layer) return offload(schedule, 0);
    Schedule taped = schedule;
    taped.i = i + 1;
    taped.taped = true;
    taped.kept.push_back({i - 1, schedule.taped});
    taped.forward.push_back({Op::kForwardTape, i});
    taped.backward.insert(taped.backward.begin(), program::Action{Op::kBackward, i});
    cut(taped);
    for (int j = i; recompute_ && j <= problem_.last_layer; ++j) {
      for (const Actions& again : sequences(i, j)) {
        Schedule untaped = schedule;
        untaped.i = j + 1;
        untaped.taped = false;
        untaped.kept.push_back({i - 1, schedule.taped});
        run(untaped.forward, i, j);
        untaped.backward.insert(untaped.backward.begin(), again.begin(), again.end());
        cut(untaped);
      }
    }
  }

  // Keeps or offloads every kept item, from the k-th on.
  void offload(const Schedule& schedule, std::size_t k) {
    if (k == schedule.kept.size()) return judge(schedule);
    offload(schedule, k + 1);
    const Kept& kept = schedule.kept[k];
    const program::Action out{kept.taped ? Op::kOffloadTape : Op::kOffload, kept.layer};
    const program::Action in{kept.taped ? Op::kPrefetchTape : Op::kPrefetch, kept.layer};
    const std::size_t from = after_reader(schedule, kept.layer + 1);
    const std::size_t until = in_order_ ? from : schedule.forward.size();
    const std::size_t latest = in_order_ ? first_return(schedule) : schedule.backward.size() - 1;
    for (std::size_t leaves = from; leaves <= until; ++leaves) {
      for (std::size_t returns = 0; returns <= latest; ++returns) {
        Schedule moved = schedule;
        moved.forward.insert(moved.forward.begin() + static_cast<std::ptrdiff_t>(leaves), out);
        moved.backward.insert(moved.backward.begin() + static_cast<std::ptrdiff_t>(returns), in);
        offload(moved, k + 1);
      }
    }
  }

  // The index after the first forward of `layer`.
  static std::size_t after_reader(const Schedule& schedule, int layer) {
    const auto reader =
        std::find_if(schedule.forward.begin(), schedule.forward.end(), [&](const auto& action) {
          return action.layer == layer && program::is_forward(action.op);
        });
    return static_cast<std::size_t>(reader - schedule.forward.begin()) + 1;
  }

  // What is kept of later layers is needed earlier. The end of the list if nothing returns yet.
  static std::size_t first_return(const Schedule& schedule) {
    const auto returns = [](const program::Action& action) {
      return action.op == Op::kPrefetch || action.op == Op::kPrefetchTape;
    };
    const auto first =
        std::find_if(schedule.backward.begin(), schedule.backward.end() - 1, returns);
    return static_cast<std::size_t>(first - schedule.backward.begin());
  }

  void judge(const Schedule& schedule) {
    program::StageProgram program{.first_layer = problem_.first_layer,
                                  .last_layer = problem_.last_layer,
                                  .forward = schedule.forward,
                                  .backward = schedule.backward};
    simulate::CopyLanes lanes{problem_.link->out, problem_.link->in, problem_.budget};
    const simulate::Replay replay = simulate::replay(chain_, program, lanes);
    if (replay.fault || replay.peak > problem_.budget) return;
    if (replay.moved > problem_.link->capacity) return;
    best_ = std::min(best_, replay.time.count());
  }

  // Every memory-persistent way to run s..t forward and backward from a held x[s-1].
  static std::vector<Actions> sequences(int s, int t) {
    if (s == t) return {{{Op::kForwardTape, s}, {Op::kBackward, s}}};
    std::vector<Actions> all;
    for (const Actions& right : sequences(s + 1, t)) {
      Actions taped{{Op::kForwardTape, s}};
      taped.insert(taped.end(), right.begin(), right.end());
      taped.push_back({Op::kBackward, s});
      all.push_back(taped);
    }
    for (int j = s; j < t; ++j) {
      for (const Actions& right : sequences(j + 1, t)) {
        for (const Actions& left : sequences(s, j)) {
          Actions again;
          run(again, s, j);
          again.insert(again.end(), right.begin(), right.end());
          again.insert(again.end(), left.begin(), left.end());
          all.push_back(again);
        }
      }
    }
    return all;
  }

  static void run(Actions& actions, int s, int j) {
    for (int k = s; k <= j; ++k) actions.push_back({k == s ? Op::kForwardKeep : Op::kForward, k});
  }

  const Problem& problem_;
  const chain::Chain& chain_;
  bool recompute_, in_order_;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace trireme::solve
