// Kept items of stage programs, where they are used, and the same programs with copies.
//
// SPDX-License-Identifier: Apache-2.0
#include "stage_copies.h"

#include "trireme/core/error.h"
#include "trireme/program/retape.h"
#include "trireme/simulate/ledger.h"
#include "trireme/simulate/replay.h"

#include <algorithm>
#include <utility>

namespace trireme::solve {

using program::Action;
using program::Op;
using program::StageProgram;

StageCopies::Program StageCopies::studied(const StageProgram& asked) const {
  Program program{.actions = program::with_retapes(program::moved_to(asked, 1), alone_),
                  .items = {},
                  .during = {},
                  .kept = {},
                  .forward = {},
                  .backward = {},
                  .recompute = {}};
  const simulate::Replay replay = simulate::replay(alone_, program.actions);
  ensure(!replay.fault, "a stage's program can be replayed");
  program.kept = replay.kept;
  program.forward = replay.forward;
  program.backward = replay.backward;
  program.recompute = replay.recompute;
  find_uses(program);
  return program;
}

// Finds the items held at the pause and their last use before and first use after it.
void StageCopies::find_uses(Program& program) const {
  const int last = program.actions.last_layer;
  simulate::Ledger ledger(alone_, {.first_layer = 1, .last_layer = last});
  const auto apply = [&](const Action& action) {
    const simulate::Ledger::Outcome outcome = ledger.apply(action);
    ensure(!outcome.fault, outcome.fault ? *outcome.fault : "");
    return outcome.effect.during;
  };
  apply({Op::kReceiveInput, 0});
  if (with_loss_) apply({Op::kLoadTarget, last});
  const std::vector<Action>& forward = program.actions.forward;
  const std::size_t made = program::output_made(program.actions);
  for (std::size_t k = 0; k < forward.size(); ++k) {
    apply(forward[k]);
    if (k == made) apply({with_loss_ ? Op::kReadLoss : Op::kSendOutput, last});
  }
  for (const simulate::Value& value : ledger.values()) {
    const bool tape = value.kind == simulate::Value::Kind::kTape;
    const Bytes moves = tape ? alone_.layer(value.layer).tape_moves() : value.size;
    if ((!tape && value.kind != simulate::Value::Kind::kOutput) || moves <= Bytes(0)) continue;
    program.items.push_back({{tape, value.layer, 0}, moves});
  }
  if (!with_loss_) apply({Op::kReceiveGradient, last});
  for (const Action& action : program.actions.backward) program.during.push_back(apply(action));
  for (Item& item : program.items) set_uses(program.actions, made, item);
  std::stable_sort(program.items.begin(), program.items.end(),
                   [](const Item& a, const Item& b) { return a.key.layer < b.key.layer; });
}

// x[last] is passed on after the action `made`.
void StageCopies::set_uses(const StageProgram& program, std::size_t made, Item& item) {
  const auto uses = [&](const Action& action) {
    bool found = program::is_forward(action.op) && action.layer == item.key.layer;  // makes it
    program::for_each_need(action, [&](const program::ValueKey& key) { found |= key == item.key; });
    return found;
  };
  for (std::size_t k = 0; k < program.forward.size(); ++k) {
    if (uses(program.forward[k])) item.leaves_after = k;
  }
  if (item.key.layer == program.last_layer) item.leaves_after = std::max(item.leaves_after, made);
  const auto first = std::find_if(program.backward.begin(), program.backward.end(), uses);
  item.needed_before = static_cast<std::size_t>(first - program.backward.begin());
}

std::vector<Bytes> StageCopies::during_backward(const Program& program, const Moved& moved) {
  std::vector<Bytes> during = program.during;
  for (std::size_t k = 0; k < moved.size(); ++k) {
    if (!moved[k]) continue;
    for (std::size_t n = 0; n < program.items[k].needed_before; ++n)
      during[n] -= program.items[k].size;
  }
  return during;
}

Bytes StageCopies::room(const Program& program, const Moved& moved) const {
  return problem_.memory - (problem_.in_flight - 1) * (program.kept - bytes_of(program, moved));
}

bool StageCopies::may_fit(const Program& program, const Moved& moved) const {
  const std::vector<Bytes> during = during_backward(program, moved);
  const Bytes most = room(program, moved);
  return std::all_of(during.begin(), during.end(), [&](Bytes held) { return held <= most; });
}

// Returns as early as they fit next to what is back by then and what the other micro-batches keep.
std::vector<Return> StageCopies::returns(const Program& program, const Moved& moved) const {
  std::vector<Return> returns;
  for (std::size_t k = 0; k < moved.size(); ++k) {
    if (!moved[k]) continue;
    const Item& item = program.items[k];
    returns.push_back({{item.key.tape ? Op::kPrefetchTape : Op::kPrefetch, item.key.layer},
                       item.size,
                       item.needed_before});
  }
  std::stable_sort(returns.begin(), returns.end(),
                   [](const Return& a, const Return& b) { return a.before < b.before; });
  return_early(returns, during_backward(program, moved), room(program, moved));
  return returns;
}

StageProgram StageCopies::with_copies(const Program& program, const Moved& moved) const {
  StageProgram made{.first_layer = 1, .last_layer = program.actions.last_layer};
  for (std::size_t n = 0; n < program.actions.forward.size(); ++n) {
    made.forward.push_back(program.actions.forward[n]);
    for (std::size_t k = 0; k < moved.size(); ++k) {
      const Item& item = program.items[k];
      if (!moved[k] || item.leaves_after != n) continue;
      made.forward.push_back({item.key.tape ? Op::kOffloadTape : Op::kOffload, item.key.layer});
    }
  }
  made.backward = merged(program.actions.backward, returns(program, moved));
  return made;
}

}  // namespace trireme::solve
