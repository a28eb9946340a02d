// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weights_here.h"

#include <algorithm>
#include <utility>

namespace trireme::program {
namespace {

using Gradients = HeldLayer::Gradients;
using Kind = WeightsMove::Kind;

HeldLayer shall_have(const HeldWeights& held, int layer) {
  const auto found = std::find_if(held.begin(), held.end(),
                                  [&](const HeldLayer& one) { return one.layer == layer; });
  return found == held.end() ? HeldLayer{.layer = layer, .weights = false} : *found;
}

}  // namespace

std::vector<WeightsMove> WeightsHere::hold(const HeldWeights& held) {
  std::vector<WeightsMove> moves;
  const auto goes = [&](int layer, bool of_gradients, bool& is_here, bool& is_needed) {
    if (!std::exchange(is_here, false)) return;
    moves.push_back(
        {std::exchange(is_needed, false) ? Kind::kOut : Kind::kLetGo, layer, of_gradients});
  };
  for (auto& [layer, here] : here_) {
    const HeldLayer shall = shall_have(held, layer);
    if (!shall.weights) goes(layer, false, here.weights, here.weights_changed);
    if (shall.gradients == Gradients::kNone) goes(layer, true, here.gradients, here.has_sums);
  }
  std::erase_if(here_,
                [](const auto& one) { return !one.second.weights && !one.second.gradients; });
  for (const HeldLayer& shall : held) {
    Layer& here = here_[shall.layer];
    if (shall.weights && !std::exchange(here.weights, true))
      moves.push_back({Kind::kIn, shall.layer, false});
    if (shall.gradients == Gradients::kNone || std::exchange(here.gradients, true)) continue;
    const bool comes = shall.gradients == Gradients::kSums;
    moves.push_back({comes ? Kind::kIn : Kind::kTake, shall.layer, true});
  }
  return moves;
}

void WeightsHere::moved(const WeightsMove& move) {
  Layer& here = here_[move.layer];
  const bool is_in = move.kind == Kind::kTake || move.kind == Kind::kIn;
  (move.of_gradients ? here.gradients : here.weights) = is_in;
  (move.of_gradients ? here.has_sums : here.weights_changed) = false;
  if (!here.weights && !here.gradients) here_.erase(move.layer);
}

void WeightsHere::used(int layer, WeightsChange change) {
  Layer& here = here_.at(layer);
  switch (change) {
    case WeightsChange::kNothing:
      return;
    case WeightsChange::kGradients:
      here.has_sums = true;
      return;
    case WeightsChange::kUpdate:
      here.weights_changed = true;
      here.has_sums = false;
      return;
    case WeightsChange::kUpdateInPart:
      here.weights_changed = here.has_sums = true;
  }
}

}  // namespace trireme::program
