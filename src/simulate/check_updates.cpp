// Whether layers are updated where their weights and gradients allow it.
// SPDX-License-Identifier: Apache-2.0
#include "shape.h"

#include "trireme/core/text.h"
#include "trireme/program/updates.h"
#include "trireme/program/weight_uses.h"

#include <algorithm>
#include <map>

namespace trireme::simulate {
namespace {

using program::Action;
using program::Op;
using program::UpdatePlace;

/// Why the update, by its index, may not be where it is; or where it is.
std::optional<std::string> misplaced(const std::vector<Action>& actions, std::size_t update,
                                     UpdatePlace& place) {
  const auto uses = [&](const Action& action) {
    return action.layer == actions[update].layer && program::uses_weights(action.op);
  };
  const auto middle = actions.begin() + static_cast<std::ptrdiff_t>(update);
  const bool is_first = std::none_of(actions.begin(), middle, uses);
  const bool is_last = std::none_of(middle, actions.end(), uses);
  if (is_first == is_last)
    return "an update stands before all forwards of its layer or after all its backwards";
  place = is_first ? UpdatePlace::kInForward : UpdatePlace::kInBackward;
  return std::nullopt;
}

class UpdatesCheck {
 public:
  explicit UpdatesCheck(const Setting& setting) : setting_(setting) {}

  std::optional<std::string> problem(const std::vector<Action>& actions, std::size_t update) {
    const int layer = actions[update].layer;
    if (!actions.empty() && actions.back().op != Op::kStep)
      return "a program that updates layers ends with a step";
    const auto place = static_cast<std::size_t>(layer);
    if (place >= setting_.streamed.size() || !setting_.streamed[place].is_trained)
      return "only layers whose trained weights come and go have an update of their own";
    const int part = parts_[layer]++;
    if (actions[update].micro_batch != part)
      return concat("is part ", actions[update].micro_batch, " of an update, expected ", part);
    UpdatePlace here{};
    if (auto reason = misplaced(actions, update, here)) return reason;
    if (here == UpdatePlace::kInBackward && setting_.replicas > 1)
      return "replicas add their gradients up at the end: no layer is updated before";
    if (place_.value_or(here) != here)
      return "all updates stand before forwards, or all after backwards";
    place_ = here;
    return std::nullopt;
  }

 private:
  const Setting& setting_;
  std::map<int, int> parts_;  ///< of its update, by layer
  std::optional<UpdatePlace> place_;
};

}  // namespace

std::optional<ProgramFault> check_updates(const program::Program& program, const Setting& setting) {
  UpdatesCheck check(setting);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const std::vector<Action>& actions = program.ranks[rank];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].op != Op::kUpdate) continue;
      if (auto reason = check.problem(actions, i))
        return ProgramFault{static_cast<int>(rank), i, actions[i], std::move(*reason)};
    }
  }
  return std::nullopt;
}

}  // namespace trireme::simulate
