// Checks that layers are updated where their weights and gradients allow it.
// SPDX-License-Identifier: Apache-2.0
#include "shape.h"

#include "trireme/core/text.h"
#include "trireme/program/updates.h"
#include "trireme/program/weight_uses.h"

#include <cstddef>
#include <map>
#include <utility>

namespace trireme::simulate {
namespace {

using program::Action;
using program::Op;
using program::UpdatePlace;

/// By layer, the first and the last of a rank's actions that run it.
using Runs = std::map<int, std::pair<std::size_t, std::size_t>>;

Runs runs_of(const std::vector<Action>& actions) {
  Runs runs;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (program::uses_weights(actions[i].op))
      runs.try_emplace(actions[i].layer, i, i).first->second.second = i;
  return runs;
}

/// Nothing for an update that is neither before nor after all actions that run its layer.
std::optional<UpdatePlace> place_of(std::size_t update, int layer, const Runs& runs) {
  const auto run = runs.find(layer);
  if (run == runs.end()) return std::nullopt;
  if (update < run->second.first) return UpdatePlace::kInForward;
  if (update > run->second.second) return UpdatePlace::kInBackward;
  return std::nullopt;
}

class UpdatesCheck {
 public:
  explicit UpdatesCheck(const Setting& setting) : setting_(setting) {}

  std::optional<std::string> problem(const std::vector<Action>& actions, std::size_t update,
                                     const Runs& runs) {
    const int layer = actions[update].layer;
    const auto place = static_cast<std::size_t>(layer);
    if (place >= setting_.streamed.size() || !setting_.streamed[place].is_trained)
      return "only layers with streamed trained weights have an update of their own";
    const int part = parts_[layer]++;
    if (actions[update].micro_batch != part)
      return concat("is part ", actions[update].micro_batch, " of an update, expected ", part);
    const auto here = place_of(update, layer, runs);
    if (!here)
      return "an update must be before all forwards of its layer or after all its backwards";
    if (here == UpdatePlace::kInBackward && setting_.replicas > 1)
      return "replicas sum their gradients at the end of the step: no layer is updated before";
    if (place_.value_or(*here) != *here)
      return "all updates must be before forwards, or all after backwards";
    place_ = here;
    return std::nullopt;
  }

 private:
  const Setting& setting_;
  std::map<int, int> parts_;  ///< parts of its update seen so far, by layer
  std::optional<UpdatePlace> place_;
};

/// Whether the copies of state enclose all updates of a rank.
class StateCheck {
 public:
  explicit StateCheck(const std::vector<Action>& actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].op == Op::kUpdate) updates_end_ = i + 1;
      if (actions[i].op == Op::kStep) has_step_ = true;
    }
  }

  std::optional<std::string> problem(const Action& action, std::size_t index) {
    if (action.op == Op::kStateIn) {
      if (begun_++ > 0) return "state begins to be copied in once";
    } else if (action.op == Op::kUpdate) {
      if (!has_step_) return "a program that updates layers ends with a step";
      if (begun_ == 0) return "state_in comes before the first update";
      if (ended_ > 0) return "await_state comes after the last update";
    } else if (action.op == Op::kAwaitState) {
      if (ended_++ > 0 || updates_end_ == 0 || index < updates_end_)
        return "await_state comes once, after the last update";
    }
    return std::nullopt;
  }

 private:
  std::size_t updates_end_ = 0;
  bool has_step_ = false;
  int begun_ = 0, ended_ = 0;
};

}  // namespace

std::optional<ProgramFault> check_updates(const program::Program& program, const Setting& setting) {
  UpdatesCheck check(setting);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const std::vector<Action>& actions = program.ranks[rank];
    const Runs runs = runs_of(actions);
    StateCheck state(actions);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      std::optional<std::string> reason = state.problem(actions[i], i);
      if (!reason && actions[i].op == Op::kUpdate) reason = check.problem(actions, i, runs);
      if (reason) return ProgramFault{static_cast<int>(rank), i, actions[i], std::move(*reason)};
    }
  }
  return std::nullopt;
}

}  // namespace trireme::simulate
