// SPDX-License-Identifier: Apache-2.0
#include "recompute_early.h"

#include "trireme/program/retape.h"
#include "trireme/simulate/replay.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

using program::Action;
using program::Op;
using program::StageProgram;

/// Drops that are added or left out until a moved run is legal.
constexpr int kRepairs = 64;

bool is_backward(const Action& action) {
  return action.op == Op::kBackward;
}
bool copies(const StageProgram& program);
/// The run of actions from `begin` to the next backward.
std::size_t run_end(const std::vector<Action>& actions, std::size_t begin);
/// A part of the backward list and where it shall go.
struct Move {
  std::size_t begin, end, to;
  bool drops_at_pause;  ///< added drops stand at the end of the forward list, so that less is kept
};
/// The program with that done, made legal by drops; nothing if that cannot be, or does not fit.
std::optional<StageProgram> with_run_at(const chain::Chain& chain, const StageQuestion& question,
                                        const StageProgram& program, const Move& move);

}  // namespace

StageProgram recompute_early(const chain::Chain& chain, const StageQuestion& question,
                             StageProgram program, int left_alone) {
  if (copies(program)) return program;
  // What is moved to before the backward of the layer above must have its output.
  program = program::with_whole_tapes(std::move(program));
  const auto first = [&] {
    return static_cast<std::size_t>(
        std::find_if(program.backward.begin(), program.backward.end(), is_backward) -
        program.backward.begin());
  };
  for (std::size_t at = first() + 1; at < program.backward.size();) {
    const std::size_t end = run_end(program.backward, at);
    std::optional<StageProgram> moved;
    if (end > at && left_alone-- > 0) {
      at = end + 1;
      continue;
    }
    // The whole run, or as much of its beginning as fits; behind what runs early already, or
    // before it.
    for (std::size_t stop = end; stop > at && !moved; stop = at + (stop - at) * 3 / 4) {
      for (const std::size_t to : {first(), std::size_t{0}}) {
        for (const bool at_pause : {false, true}) {
          if (!moved) moved = with_run_at(chain, question, program, {at, stop, to, at_pause});
        }
      }
    }
    if (moved) {
      // Drops came or went.
      at = std::min(at + moved->backward.size() - program.backward.size(), moved->backward.size());
      program = *std::move(moved);
    }
    at = run_end(program.backward, std::max(at, first() + 1)) + 1;
  }
  return program::with_retapes(std::move(program), chain);
}

double ahead(const chain::Chain& chain, const StageProgram& program) {
  double seconds = 0;
  for (const Action& action : program.backward) {
    if (is_backward(action)) break;
    const chain::LayerCost& layer = chain.layer(action.layer);
    if (action.op == Op::kRetape) {
      seconds += layer.again().time.count();
    } else if (program::is_forward(action.op)) {
      seconds += layer.forward.count();
    }
  }
  return seconds;
}

namespace {

bool copies(const StageProgram& program) {
  const auto copy = [](const Action& action) {
    return action.op == Op::kOffload || action.op == Op::kOffloadTape;
  };
  return std::any_of(program.forward.begin(), program.forward.end(), copy) ||
         std::any_of(program.backward.begin(), program.backward.end(), copy);
}

std::size_t run_end(const std::vector<Action>& actions, std::size_t begin) {
  while (begin < actions.size() && !is_backward(actions[begin])) ++begin;
  return begin;
}

// x[i] may be held by itself when the tape of i is made earlier than it was: then it is dropped
// first, for the tape holds it. A drop that had its turn later has nothing to do any more.
std::optional<StageProgram> with_run_at(const chain::Chain& chain, const StageQuestion& question,
                                        const StageProgram& program, const Move& move) {
  const auto place = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
  StageProgram moved = program;
  std::vector<Action>& actions = moved.backward;
  std::rotate(actions.begin() + place(move.to), actions.begin() + place(move.begin),
              actions.begin() + place(move.end));
  std::size_t last = move.to + (move.end - move.begin);  // of the moved run
  for (int repair = 0; repair < kRepairs; ++repair) {
    const simulate::Replay replay = simulate::replay(chain, moved);
    if (!replay.fault) {
      const StageNeeds needs{
          .forward = {}, .backward = {}, .kept = replay.kept, .peak = replay.peak};
      if (needs.memory(question.in_flight) > question.memory) return std::nullopt;
      return moved;
    }
    const simulate::Fault& fault = *replay.fault;
    if (!fault.in_backward || fault.at_end || fault.index >= actions.size()) return std::nullopt;
    const bool in_run = fault.index >= move.to && fault.index < last;
    if (fault.action.op == Op::kDrop && fault.index >= last) {
      actions.erase(actions.begin() + place(fault.index));
    } else if (in_run && program::is_forward(fault.action.op)) {
      const Action drop{Op::kDrop, fault.action.layer, 0};
      const bool again = move.drops_at_pause ? std::find(moved.forward.begin(), moved.forward.end(),
                                                         drop) != moved.forward.end()
                                             : fault.index > 0 && actions[fault.index - 1] == drop;
      if (again) return std::nullopt;
      if (move.drops_at_pause) {
        moved.forward.push_back(drop);
      } else {
        actions.insert(actions.begin() + place(fault.index), drop);
        ++last;
      }
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace
}  // namespace trireme::partition
