// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/streamed_weights.h"

#include "trireme/core/error.h"
#include "trireme/tier/memory.h"

#include <utility>

namespace trireme::runtime {
namespace {

Bytes size_of(const std::vector<c10::Storage>& storages) {
  std::int64_t bytes = 0;
  for (const c10::Storage& storage : storages) bytes += static_cast<std::int64_t>(storage.nbytes());
  return Bytes(bytes);
}

c10::Storage own_storage(const at::Tensor& tensor) {
  ensure(tensor.storage().nbytes() == tensor.nbytes(),
         "what is offloaded has a storage of its own");
  return tensor.storage();
}

}  // namespace

chain::OffloadWeights StreamedWeights::Layer::size() const {
  return {.weights = size_of(weights),
          .gradients = size_of(gradients),
          .is_trained = !gradients.empty()};
}

StreamedWeights::StreamedWeights(const Layers& layers, std::unique_ptr<tier::ValueCopies> copies)
    : at_once_(layers.at_once), has_replicas_(layers.has_replicas), copies_(std::move(copies)) {
  for (const int layer : layers.numbers) layers_[layer];
}

StreamedWeights::~StreamedWeights() {
  copies_->abandon();
}

tier::ValueCopies::Key StreamedWeights::key(int layer, bool gradients) {
  return {.tape = gradients, .layer = layer, .micro_batch = 0};
}

bool StreamedWeights::are_of(int layer) const {
  return layers_.contains(layer);
}

void StreamedWeights::add(int layer, const std::vector<at::Tensor>& weights,
                          const at::Tensor& gradients) {
  Layer& added = layers_.at(layer);
  ensure(added.weights.empty(), "the weights of a layer are added once");
  for (const at::Tensor& weight : weights) added.weights.push_back(own_storage(weight));
  if (gradients.defined()) added.gradients.push_back(own_storage(gradients));
  send(layer, false, added.weights);
  if (gradients.defined()) send(layer, true, added.gradients);
}

void StreamedWeights::send(int layer, bool gradients, const std::vector<c10::Storage>& storages) {
  copies_->offload(key(layer, gradients), storages);
  copies_->release_next();
}

Bytes StreamedWeights::bytes() const {
  Bytes sum;
  for (const auto& [number, layer] : layers_) sum += layer.size().all();
  return sum;
}

Bytes StreamedWeights::window() const {
  std::vector<chain::OffloadWeights> sizes;
  for (const auto& [number, layer] : layers_) sizes.push_back(layer.size());
  return chain::weights_window(std::move(sizes), at_once_);
}

program::WeightUses StreamedWeights::uses(const std::vector<program::Action>& actions,
                                          int last) const {
  std::vector<program::WeightsKind> kinds(static_cast<std::size_t>(last) + 1);
  for (const auto& [number, layer] : layers_)
    kinds.at(static_cast<std::size_t>(number)) =
        layer.gradients.empty() ? program::WeightsKind::kFrozen : program::WeightsKind::kTrained;
  return program::weight_uses(actions, kinds, at_once_, has_replicas_);
}

std::vector<program::WeightsMove> StreamedWeights::hold(const program::HeldWeights& held) {
  release();
  std::vector<program::WeightsMove> moves = here_.hold(held);
  for (const program::WeightsMove& move : moves) make(move);
  return moves;
}

std::vector<program::WeightsMove> StreamedWeights::end(const program::WeightUses::Use& use) {
  here_.used(use.layer, use.change);
  return hold(use.held);
}

void StreamedWeights::make(const program::WeightsMove& move) {
  const tier::TagScope tag(move.of_gradients ? tier::Tag::kGradients : tier::Tag::kParameters);
  const tier::ValueCopies::Key moved = key(move.layer, move.of_gradients);
  switch (move.kind) {
    case program::WeightsMove::Kind::kLetGo:
      return copies_->let_go(moved);
    case program::WeightsMove::Kind::kOut:
      // More than one is copied out at a time only if a run ends early.
      release();
      copies_->write_back(moved);
      is_leaving_ = true;
      return;
    case program::WeightsMove::Kind::kTake:
      return copies_->take(moved);
    case program::WeightsMove::Kind::kIn: {
      const chain::OffloadWeights size = layers_.at(move.layer).size();
      moved_ += move.of_gradients ? size.gradients : size.weights;
      copies_->prefetch(moved);
      copies_->begin_next();
      return;
    }
  }
}

void StreamedWeights::release() {
  if (std::exchange(is_leaving_, false)) copies_->release_next();
}

void StreamedWeights::await(int layer, bool gradients) {
  ensure(gradients ? here_.has_gradients(layer) : here_.has_weights(layer),
         "weights and gradients are held before they are used");
  copies_->await_copy(key(layer, gradients));
}

tier::ValueCopies::Spans StreamedWeights::settle() {
  release();
  copies_->drain();
  return copies_->take_spans();
}

void StreamedWeights::bring(int layer) {
  hold({{.layer = layer}});
  await(layer, false);
}

void StreamedWeights::change(int layer, const std::function<void()>& change) {
  bring(layer);
  change();
  here_.used(layer, program::WeightsChange::kUpdate);
}

void StreamedWeights::close() {
  hold({});
  release();
}

}  // namespace trireme::runtime
