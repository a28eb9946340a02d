// Puts receives in the order of sending.
// SPDX-License-Identifier: Apache-2.0
#include "receives.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme::program {
namespace {

/// A stream of messages, which arrive in order: from rank, to rank, whether outputs.
using StreamKey = std::tuple<int, int, bool>;

bool carries_output(Op op) {
  return op == Op::kSendOutput || op == Op::kReceiveInput;
}

StreamKey stream_of(const Program& program, const Action& action) {
  const int below = program.rank_of_layer[static_cast<std::size_t>(action.layer)];
  const int above = program.rank_of_layer[static_cast<std::size_t>(action.layer) + 1];
  return carries_output(action.op) ? StreamKey{below, above, true} : StreamKey{above, below, false};
}

/// The receives of each stream in the order of sending.
using Wanted = std::map<StreamKey, std::vector<Action>>;

Wanted wanted_receives(const Program& program) {
  Wanted wanted;
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (!is_send(action.op)) continue;
      const Op receive = carries_output(action.op) ? Op::kReceiveInput : Op::kReceiveGradient;
      wanted[stream_of(program, action)].push_back({receive, action.layer, action.micro_batch});
    }
  }
  return wanted;
}

}  // namespace

void receive_in_order_of_sending(Program& program) {
  const Wanted wanted = wanted_receives(program);
  std::map<StreamKey, std::size_t> received;
  for (std::vector<Action>& actions : program.ranks) {
    std::vector<Action> ordered;
    std::set<std::tuple<Op, int, int>> moved;  // moved forward from their place
    for (const Action& action : actions) {
      if (!is_receive(action.op)) {
        ordered.push_back(action);
        continue;
      }
      if (moved.erase({action.op, action.layer, action.micro_batch}) > 0) continue;
      const StreamKey stream = stream_of(program, action);
      for (bool found = false; !found;) {
        const Action& next = wanted.at(stream).at(received[stream]++);
        found = next == action;
        if (!found) moved.emplace(next.op, next.layer, next.micro_batch);
        ordered.push_back(next);
      }
    }
    actions = std::move(ordered);
  }
}

}  // namespace trireme::program
