// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weight_uses.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace trireme::program {
namespace {

using Gradients = HeldLayer::Gradients;

/// Consecutive actions that use one streamed layer, with only actions that use none between them;
/// or one layer's turn within an action that uses many.
struct RunOfUses {
  HeldLayer needs;
  WeightsChange change = WeightsChange::kNothing;
  std::size_t last = 0;  ///< action
  bool is_within = false;
};

class Runs {
 public:
  Runs(const std::vector<WeightsKind>& kinds, const std::vector<Action>& actions, bool has_replicas)
      : kinds_(kinds), has_replicas_(has_replicas), has_sums_(kinds.size()) {
    for (std::size_t i = 0; i < actions.size(); ++i)
      if (actions[i].op == Op::kUpdate) last_updates_[actions[i].layer] = i;
  }

  void add(const Action& action, std::size_t index, WeightUses::Point& point);
  const std::vector<RunOfUses>& runs() const { return runs_; }

 private:
  WeightsKind kind(int layer) const { return kinds_.at(static_cast<std::size_t>(layer)); }
  void add_all(const RunOfUses& like);
  /// Adds the action to the current run of the layer, or begins one.
  RunOfUses& add_to(int layer, std::size_t index);
  /// State of the layer's gradients at its next backward.
  Gradients begun(int layer);

  const std::vector<WeightsKind>& kinds_;
  bool has_replicas_;
  std::vector<bool> has_sums_;               ///< by layer: a backward has begun its gradients
  std::map<int, std::size_t> last_updates_;  ///< of layers with updates of their own
  std::vector<RunOfUses> runs_;
};

void Runs::add(const Action& action, std::size_t index, WeightUses::Point& point) {
  if (action.op == Op::kReduceGradients && has_replicas_)
    return add_all({{0, false, Gradients::kSums}, WeightsChange::kGradients, index, true});
  if (action.op == Op::kStep)
    return add_all({{0, true, Gradients::kSums}, WeightsChange::kUpdate, index, true});
  const bool updates = action.op == Op::kUpdate;
  if (!updates && !uses_weights(action.op)) return;
  if (kind(action.layer) == WeightsKind::kStay) return;
  point.needs = action.layer;
  RunOfUses& run = add_to(action.layer, index);
  if (!updates && !adds_gradients(action.op)) return;
  if (kind(action.layer) != WeightsKind::kTrained) return;
  point.needs_gradients = true;
  // An update before a backward uses the sums of the previous step.
  const Gradients gradients = updates ? Gradients::kSums : begun(action.layer);
  if (run.needs.gradients == Gradients::kNone) run.needs.gradients = gradients;
  const bool was_updated = run.change == WeightsChange::kUpdate;
  if (updates) {
    const bool is_last = last_updates_.at(action.layer) == index;
    run.change = is_last ? WeightsChange::kUpdate : WeightsChange::kUpdateInPart;
  } else {
    run.change = was_updated ? WeightsChange::kUpdateInPart : WeightsChange::kGradients;
  }
}

RunOfUses& Runs::add_to(int layer, std::size_t index) {
  if (runs_.empty() || runs_.back().is_within || runs_.back().needs.layer != layer)
    runs_.push_back({.needs = {.layer = layer}});
  runs_.back().last = index;
  return runs_.back();
}

void Runs::add_all(const RunOfUses& like) {
  const bool updates = like.change == WeightsChange::kUpdate;
  for (std::size_t layer = 0; layer < kinds_.size(); ++layer) {
    if (kinds_[layer] != WeightsKind::kTrained || !has_sums_[layer]) continue;
    if (updates && last_updates_.contains(static_cast<int>(layer))) continue;
    runs_.push_back(like);
    runs_.back().needs.layer = static_cast<int>(layer);
  }
}

Gradients Runs::begun(int layer) {
  std::vector<bool>::reference has_sums = has_sums_[static_cast<std::size_t>(layer)];
  const Gradients gradients = has_sums ? Gradients::kSums : Gradients::kNew;
  has_sums = true;
  return gradients;
}

/// What the first `at_once` layers of the runs from `from` on, round and round, need.
HeldWeights held_for(const std::vector<RunOfUses>& runs, std::size_t from, int at_once) {
  HeldWeights held;
  for (std::size_t i = from; i < from + runs.size(); ++i) {
    if (std::cmp_equal(held.size(), at_once)) break;
    const HeldLayer& needs = runs[i % runs.size()].needs;
    const auto is_same = [&](const HeldLayer& one) { return one.layer == needs.layer; };
    if (std::none_of(held.begin(), held.end(), is_same)) held.push_back(needs);
  }
  return held;
}

}  // namespace

bool uses_weights(Op op) {
  return is_forward(op) || adds_gradients(op);
}

WeightUses weight_uses(const std::vector<Action>& actions, const std::vector<WeightsKind>& kinds,
                       int at_once, bool has_replicas) {
  WeightUses result;
  result.points.resize(actions.size());
  Runs all(kinds, actions, has_replicas);
  for (std::size_t i = 0; i < actions.size(); ++i) all.add(actions[i], i, result.points[i]);
  const std::vector<RunOfUses>& runs = all.runs();
  if (runs.empty()) return {};
  std::set<int> layers;
  for (const RunOfUses& run : runs) layers.insert(run.needs.layer);
  at_once = static_cast<int>(std::min(std::size_t(at_once), layers.size()));
  for (std::size_t k = 0; k < runs.size(); ++k) {
    WeightUses::Use use{.layer = runs[k].needs.layer,
                        .change = runs[k].change,
                        .held = held_for(runs, k + 1, at_once)};
    WeightUses::Point& point = result.points[runs[k].last];
    if (runs[k].is_within)
      point.within.push_back(std::move(use));
    else
      point.ends = std::move(use);
  }
  result.first = held_for(runs, 0, at_once);
  return result;
}

}  // namespace trireme::program
