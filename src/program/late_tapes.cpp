// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/program/groups.h"
#include "trireme/program/weight_uses.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme::program {
namespace {

/// A stage's forwards and backwards in one list.
class Passes {
 public:
  explicit Passes(StageProgram program)
      : program_(std::move(program)), actions_(program_.forward), turn_(actions_.size()) {
    actions_.insert(actions_.end(), program_.backward.begin(), program_.backward.end());
  }
  StageProgram with_late_tapes();

 private:
  auto place(std::size_t index) { return actions_.begin() + static_cast<std::ptrdiff_t>(index); }
  /// The backward of `layer`, from `index` on.
  std::size_t backward_of(int layer, std::size_t index);
  /// Holds the layer's output instead of its tape between the two.
  void keep_output(std::size_t tape, std::size_t backward);

  StageProgram program_;
  std::vector<Action> actions_;
  std::size_t turn_;  ///< where the backward part begins
};

StageProgram Passes::with_late_tapes() {
  const auto is_use = [](const Action& action) { return uses_weights(action.op); };
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    if (actions_[i].op != Op::kForwardTape) continue;
    const std::size_t backward = backward_of(actions_[i].layer, i);
    if (std::any_of(place(i + 1), place(backward), is_use)) keep_output(i, backward);
  }
  program_.forward.assign(place(0), place(turn_));
  program_.backward.assign(place(turn_), actions_.end());
  return std::move(program_);
}

std::size_t Passes::backward_of(int layer, std::size_t index) {
  const auto found = std::find_if(place(index), actions_.end(), [&](const Action& action) {
    return action.op == Op::kBackward && action.layer == layer;
  });
  ensure(found != actions_.end(), "what is taped has its backward");
  return static_cast<std::size_t>(found - actions_.begin());
}

void Passes::keep_output(std::size_t tape, std::size_t backward) {
  const int layer = actions_[tape].layer;
  actions_[tape].op = Op::kForwardKeep;
  for (std::size_t i = tape + 1; i < backward; ++i) {
    Action& action = actions_[i];
    if (action == Action{Op::kOffloadTape, layer}) action.op = Op::kOffload;
    if (action == Action{Op::kPrefetchTape, layer}) action.op = Op::kPrefetch;
    // The tape held the output, which this forward would drop.
    if (action == Action{Op::kForward, layer + 1}) action.op = Op::kForwardKeep;
  }
  actions_.insert(place(backward), {Op::kForwardTape, layer, 0});
  if (backward < turn_) ++turn_;
}

}  // namespace

StageProgram with_late_tapes(StageProgram program) {
  return Passes(std::move(program)).with_late_tapes();
}

}  // namespace trireme::program
