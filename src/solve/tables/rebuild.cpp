// Programs rebuilt from tables: the decision at each sub-chain is found again by comparing its few
// alternatives, so that no table of choices is needed. Ties go to keeping an output, the earliest.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/solve/tables.h"

#include <limits>
#include <optional>

namespace trireme::solve {
namespace {

using program::Action;
using program::Op;

class Rebuild {
 public:
  Rebuild(const CostReader& reader, std::vector<Action>& before, std::vector<Action>& after)
      : reader_(reader), list_(&before), after_(&after) {}

  void emit(Recurrence which, chain::LayerRange layers, Slots m);

 private:
  std::optional<Split> best(Recurrence which, chain::LayerRange layers, Slots m) const;
  double value(const Split& split, Recurrence which, chain::LayerRange layers, Slots m) const;
  void run_forward(const Split& split, int s);
  void add(Op op, int layer) { list_->push_back({op, layer, 0}); }

  const CostReader& reader_;
  std::vector<Action>* list_;
  std::vector<Action>* after_;  ///< where actions after the pause go
};

}  // namespace

std::vector<Action> rebuild(const CostReader& reader, chain::LayerRange layers, Slots m) {
  std::vector<Action> actions;
  Rebuild(reader, actions, actions).emit(Recurrence::kWhole, layers, m);
  return actions;
}

std::vector<Action> rebuild_resumed(const CostReader& reader, chain::LayerRange layers, Slots m) {
  std::vector<Action> actions;
  Rebuild(reader, actions, actions).emit(Recurrence::kResumed, layers, m);
  return actions;
}

program::StageProgram rebuild_stage(const CostReader& reader, chain::LayerRange layers, Slots m) {
  program::StageProgram program{.first_layer = layers.first, .last_layer = layers.last};
  Rebuild(reader, program.forward, program.backward).emit(Recurrence::kFirst, layers, m);
  return program;
}

namespace {

void Rebuild::emit(Recurrence which, chain::LayerRange layers, Slots m) {
  const auto [s, t] = layers;
  if (s == t && (which == Recurrence::kResumed || which == Recurrence::kRetaped)) {
    add(Op::kBackward, t);
    return;
  }
  const std::optional<Split> split = best(which, layers, m);
  ensure(split.has_value(), "nothing to rebuild: the sub-chain does not fit");
  run_forward(*split, s);
  if (split->at < t) {
    emit(which, {split->at + 1, t}, m - split->holds);
  } else if (which == Recurrence::kFirst) {
    list_ = after_;
  }
  emit(split->left, {s, split->at}, m);
}

std::optional<Split> Rebuild::best(Recurrence which, chain::LayerRange layers, Slots m) const {
  double least = std::numeric_limits<double>::infinity();
  std::optional<Split> found;
  each_split(reader_.costs(), reader_.freedom(), which, layers, [&](const Split& split) {
    if (split.runs >= least || m < split.needs) return;
    const double time = value(split, which, layers, m);
    if (time < least) {
      least = time;
      found = split;
    }
  });
  return found;
}

double Rebuild::value(const Split& split, Recurrence which, chain::LayerRange layers,
                      Slots m) const {
  const auto [s, t] = layers;
  if (which == Recurrence::kFirst && m < split.holds + reader_.slack()) {
    return std::numeric_limits<double>::infinity();
  }
  double time = split.runs + reader_.extra(split.left, s, split.at, m);
  if (split.at < t) time += reader_.extra(which, split.at + 1, t, m - split.holds);
  return time;
}

void Rebuild::run_forward(const Split& split, int s) {
  const bool tape = split.keeps == Split::Keeps::kTape;
  const int untaped = tape ? split.at - 1 : split.at;
  for (int i = s; i <= untaped; ++i) add(i == s ? Op::kForwardKeep : Op::kForward, i);
  if (!tape) return;
  add(Op::kForwardTape, split.at);
  if (split.at > s) add(Op::kDrop, split.at - 1);
}

}  // namespace
}  // namespace trireme::solve
