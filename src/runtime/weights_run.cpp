// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/weights_run.h"

#include "trireme/core/error.h"

#include <set>

namespace trireme::runtime {

void WeightsRun::begin(const std::vector<program::Action>& actions, Recorder* recorder) {
  StreamedWeights* const weights = stage_.weights();
  if (weights == nullptr) return;
  weights->settle();  // copies between two runs are not counted
  weights->take_moved();
  recorder_ = recorder;
  uses_ = weights->uses(actions, stage_.layers().back());
  completes_.assign(uses_.points.size(), false);
  std::set<int> seen;
  for (std::size_t i = uses_.points.size(); i-- > 0;)
    completes_[i] = program::adds_gradients(actions[i].op) && uses_.points[i].needs_gradients &&
                    seen.insert(uses_.points[i].needs).second;
  note(weights->hold(uses_.first));
}

void WeightsRun::await(std::size_t action) {
  if (!needs(action)) return;
  const program::WeightUses::Point& point = uses_.points[action];
  stage_.weights()->await(point.needs, false);
  if (point.needs_gradients) stage_.weights()->await(point.needs, true);
}

void WeightsRun::note_norm(std::size_t action) {
  if (!needs(action) || !completes_[action] || !notes_norms_ || reducer_.has_replicas()) return;
  const int layer = uses_.points[action].needs;
  stage_.streamed_gradients(layer)->complete();
  reducer_.norm().note(layer);
}

void WeightsRun::end(std::size_t action) {
  if (needs(action) && uses_.points[action].ends) end(*uses_.points[action].ends);
}

void WeightsRun::reduce(std::size_t action, const Waits& waits) {
  if (uses_.points.empty()) return;
  for (const program::WeightUses::Use& use : uses_.points[action].within) {
    waits.time([&] { stage_.weights()->await(use.layer, true); });
    stage_.streamed_gradients(use.layer)->complete();
    reducer_.reduce(use.layer);
    if (notes_norms_) reducer_.norm().note(use.layer);
    waits.time([&] { end(use); });
  }
}

void WeightsRun::update(std::size_t action, const Waits& waits,
                        const std::function<void(const std::function<void(int layer)>&)>& update) {
  if (uses_.points.empty()) return update({});
  const std::vector<program::WeightUses::Use>& uses = uses_.points[action].within;
  std::size_t reached = 0;
  update([&](int layer) {
    if (reached > 0) waits.time([&] { end(uses[reached - 1]); });
    ensure(uses.at(reached).layer == layer, "layers are updated in the order of the program");
    waits.time([&] {
      stage_.weights()->await(layer, false);
      stage_.weights()->await(layer, true);
    });
    stage_.streamed_gradients(layer)->complete();
    ++reached;
  });
  ensure(reached == uses.size(), "all layers are updated");
  if (reached > 0) waits.time([&] { end(uses.back()); });
}

void WeightsRun::end(const program::WeightUses::Use& use) {
  note(stage_.weights()->end(use));
}

void WeightsRun::note(const std::vector<program::WeightsMove>& moves) {
  if (recorder_ == nullptr) return;
  for (const program::WeightsMove& move : moves) recorder_->named(move);
}

}  // namespace trireme::runtime
