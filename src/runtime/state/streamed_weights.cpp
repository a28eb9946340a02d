// SPDX-License-Identifier: Apache-2.0
#include "state/streamed_weights.h"

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

program::Streaming StreamedWeights::streaming(int layers) const {
  std::vector<chain::OffloadWeights> sizes(static_cast<std::size_t>(layers) + 1);
  for (const auto& [number, layer] : layers_)
    sizes.at(static_cast<std::size_t>(number)) = layer.size();
  return program::streaming_of(sizes, at_once_, has_replicas_);
}

void StreamedWeights::move(const program::Action& action) {
  if (program::is_release(action.op)) {
    ensure(leaving_ > 0, "weights are copied out before their bytes are freed");
    --leaving_;
    copies_->release_next();
    return;
  }
  const program::WeightsMove move = program::move_of(action);
  here_.moved(move);
  make(move);
}

std::vector<program::Action> StreamedWeights::moves_to(const program::HeldWeights& held) {
  release_all();
  std::vector<program::Action> moves;
  for (const program::WeightsMove& move : program::WeightsHere(here_).hold(held)) {
    moves.push_back(program::action_of(move));
    // Between two runs there is room for one that is copied out.
    if (move.kind == program::WeightsMove::Kind::kOut) moves.push_back(program::release_of(move));
  }
  return moves;
}

void StreamedWeights::used(int layer, program::WeightsChange change) {
  if (are_of(layer)) here_.used(layer, change);
}

void StreamedWeights::make(const program::WeightsMove& move) {
  const tier::TagScope tag(move.of_gradients ? tier::Tag::kGradients : tier::Tag::kParameters);
  const tier::ValueCopies::Key moved = key(move.layer, move.of_gradients);
  switch (move.kind) {
    case program::WeightsMove::Kind::kLetGo:
      return copies_->let_go(moved);
    case program::WeightsMove::Kind::kOut:
      ++leaving_;
      return copies_->write_back(moved);
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

void StreamedWeights::hold(const program::HeldWeights& held) {
  for (const program::Action& action : moves_to(held)) move(action);
}

void StreamedWeights::release_all() {
  for (; leaving_ > 0; --leaving_) copies_->release_next();
}

void StreamedWeights::await(int layer, bool gradients) {
  ensure(gradients ? here_.has_gradients(layer) : here_.has_weights(layer),
         "weights and gradients are held before they are used");
  copies_->await_copy(key(layer, gradients));
}

tier::ValueCopies::Spans StreamedWeights::settle() {
  release_all();
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
  release_all();
}

}  // namespace trireme::runtime
