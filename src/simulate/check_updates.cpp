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
    if (!actions.empty() && actions.back().op != Op::kStep)
      return "a program that updates layers ends with a step";
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

}  // namespace

std::optional<ProgramFault> check_updates(const program::Program& program, const Setting& setting) {
  UpdatesCheck check(setting);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const std::vector<Action>& actions = program.ranks[rank];
    const Runs runs = runs_of(actions);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].op != Op::kUpdate) continue;
      if (auto reason = check.problem(actions, i, runs))
        return ProgramFault{static_cast<int>(rank), i, actions[i], std::move(*reason)};
    }
  }
  return std::nullopt;
}

}  // namespace trireme::simulate
