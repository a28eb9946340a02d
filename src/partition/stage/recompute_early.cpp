// SPDX-License-Identifier: Apache-2.0
#include "recompute_early.h"

#include "trireme/core/error.h"
#include "trireme/program/retape.h"
#include "trireme/simulate/ledger.h"

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

/// Most drops added or removed to make a moved run legal.
constexpr int kRepairs = 64;

bool is_backward(const Action& action) {
  return action.op == Op::kBackward;
}

bool copies(const StageProgram& program) {
  const auto copy = [](const Action& action) {
    return action.op == Op::kOffload || action.op == Op::kOffloadTape;
  };
  return std::any_of(program.forward.begin(), program.forward.end(), copy) ||
         std::any_of(program.backward.begin(), program.backward.end(), copy);
}

/// The end of the run of actions from `begin` to the next backward.
std::size_t run_end(const std::vector<Action>& actions, std::size_t begin) {
  while (begin < actions.size() && !is_backward(actions[begin])) ++begin;
  return begin;
}

/// Memory of a stage between two of its actions.
struct Held {
  simulate::Ledger ledger;
  Bytes peak{}, kept{};

  /// Runs the action if it is legal; returns whether it was.
  bool run(const Action& action) {
    const simulate::Ledger::Outcome outcome = ledger.apply(action);
    if (outcome.fault) return false;
    peak = std::max({peak, outcome.effect.during, outcome.effect.after});
    return true;
  }
};

/// A part of the backward list and its destination.
struct Move {
  std::size_t begin, end, to;
  bool drops_at_pause;  ///< added drops go to the end of the forward list, so that less is kept
};

/// Moves parts of a program's backward list to before its first backward. The stage's memory at the
/// arrival of the gradient is computed once for all moves.
class Mover {
 public:
  Mover(const chain::Chain& chain, const StageQuestion& question, StageProgram program)
      : chain_(chain),
        question_(question),
        program_(std::move(program)),
        first_(static_cast<std::size_t>(
            std::find_if(program_.backward.begin(), program_.backward.end(), is_backward) -
            program_.backward.begin())),
        paused_(at_pause()),
        begun_(resumed({}).value()) {
    for (std::size_t i = 0; i < first_; ++i)
      ensure(begun_.run(program_.backward[i]), "a stage's program may run");
  }

  const StageProgram& program() const { return program_; }
  std::size_t first_backward() const { return first_; }
  /// The program with this part at the first legal place: after what runs early already, or before
  /// it; with drops where they are needed, or before the gradient.
  std::optional<StageProgram> moved(std::size_t begin, std::size_t end) const {
    for (const std::size_t to : {first_, std::size_t{0}}) {
      Outcome outcome = moved({begin, end, to, false});
      if (!outcome.program && outcome.drops) outcome = moved({begin, end, to, true});
      if (outcome.program || first_ == 0) return std::move(outcome.program);
    }
    return std::nullopt;
  }

 private:
  struct Outcome {
    std::optional<StageProgram> program;  ///< empty where it is illegal or does not fit
    bool drops = false;                   ///< a drop was missing in the moved part
  };

  // x[i] may be held by itself when the tape of i is made earlier than before: then it is dropped
  // first, since the tape holds it. A later drop of it is then removed. What does not fit once the
  // moved part has run never will.
  Outcome moved(const Move& move) const {
    const auto place = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
    StageProgram moved = program_;
    std::vector<Action>& actions = moved.backward;
    std::rotate(actions.begin() + place(move.to), actions.begin() + place(move.begin),
                actions.begin() + place(move.end));
    std::size_t last = move.to + (move.end - move.begin);  // end of the moved run
    std::size_t at = move.to;
    std::optional<Held> held = at == 0 ? resumed({}) : begun_;
    std::vector<Action> at_pause;
    Outcome outcome;
    for (int repairs = 0; at < actions.size();) {
      if (at >= last && !fits(*held)) return outcome;
      const Action action = actions[at];
      if (held->run(action)) {
        ++at;
        continue;
      }
      if (++repairs == kRepairs) return outcome;
      if (action.op == Op::kDrop && at >= last) {
        actions.erase(actions.begin() + place(at));
        continue;
      }
      if (!program::is_forward(action.op) || at < move.to || at >= last) return outcome;
      outcome.drops = true;
      const Action drop{Op::kDrop, action.layer};
      const bool again = move.drops_at_pause
                             ? std::find(at_pause.begin(), at_pause.end(), drop) != at_pause.end()
                             : at > 0 && actions[at - 1] == drop;
      if (again) return outcome;
      if (!move.drops_at_pause) {
        actions.insert(actions.begin() + place(at), drop);
        ++last;
        continue;
      }
      at_pause.push_back(drop);
      moved.forward.push_back(drop);
      if (!(held = resumed(at_pause))) return outcome;
      at = 0;
    }
    if (fits(*held) && is_finished(*held)) outcome.program = std::move(moved);
    return outcome;
  }

  Held at_pause() const {
    const int first = program_.first_layer, last = program_.last_layer;
    ensure(last < chain_.length(), "a stage that waits for a gradient is not the last");
    Held held{simulate::Ledger(chain_, {.first_layer = first, .last_layer = last})};
    const auto run = [&](const Action& action) {
      ensure(held.run(action), "a stage's program may run");
    };
    run({Op::kReceiveInput, first - 1});
    const std::size_t made = program::output_made(program_);
    for (std::size_t i = 0; i < program_.forward.size(); ++i) {
      run(program_.forward[i]);
      if (i == made) run({Op::kSendOutput, last});
    }
    return held;
  }

  /// State at the first action of the backward list, after these drops at the end of the forward
  /// list.
  std::optional<Held> resumed(const std::vector<Action>& drops) const {
    Held held = paused_;
    for (const Action& drop : drops)
      if (!held.run(drop)) return std::nullopt;
    held.kept = held.ledger.held();
    ensure(held.run({Op::kReceiveGradient, program_.last_layer}), "there is no gradient yet");
    return held;
  }

  bool fits(const Held& held) const {
    const StageNeeds needs{.forward = {}, .backward = {}, .kept = held.kept, .peak = held.peak};
    return needs.memory(question_.in_flight) <= question_.memory;
  }

  /// Whether only the gradient of the stage's input is left.
  bool is_finished(const Held& held) const {
    const std::vector<simulate::Value> left = held.ledger.values();
    return std::all_of(left.begin(), left.end(), [&](const simulate::Value& value) {
      return value.kind == simulate::Value::Kind::kGradient &&
             value.layer == program_.first_layer - 1;
    });
  }

  const chain::Chain& chain_;
  const StageQuestion& question_;
  StageProgram program_;
  std::size_t first_;
  Held paused_, begun_;  ///< before the gradient arrives; before the first backward
};

}  // namespace

StageProgram recompute_early(const chain::Chain& chain, const StageQuestion& question,
                             StageProgram program, int left_alone) {
  if (copies(program)) return program;
  // A forward moved to before the backward of the layer above must produce its output.
  program = program::with_whole_tapes(std::move(program));
  std::optional<Mover> mover(std::in_place, chain, question, std::move(program));
  for (std::size_t at = mover->first_backward() + 1; at < mover->program().backward.size();) {
    const std::size_t end = run_end(mover->program().backward, at);
    if (end > at && left_alone-- > 0) {
      at = end + 1;
      continue;
    }
    // The whole run, or as much of its beginning as fits.
    std::optional<StageProgram> moved;
    for (std::size_t stop = end; stop > at && !moved; stop = at + (stop - at) * 3 / 4)
      moved = mover->moved(at, stop);
    if (moved) {
      // Drops may have been added or removed.
      const std::size_t size = moved->backward.size();
      at = std::min(at + size - mover->program().backward.size(), size);
      mover.emplace(chain, question, *std::move(moved));
    }
    at = run_end(mover->program().backward, std::max(at, mover->first_backward() + 1)) + 1;
  }
  return program::with_retapes(mover->program(), chain);
}

Seconds ahead(const chain::Chain& chain, const StageProgram& program) {
  Seconds time;
  for (const Action& action : program.backward) {
    if (is_backward(action)) break;
    const chain::LayerCost& layer = chain.layer(action.layer);
    if (action.op == Op::kRetape) {
      time += layer.again().time;
    } else if (program::is_forward(action.op)) {
      time += layer.forward;
    }
  }
  return time;
}

}  // namespace trireme::partition
