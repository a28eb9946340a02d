// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/streamed_weights.h"

#include "trireme/chain/chain.h"
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

}  // namespace

StreamedWeights::StreamedWeights(std::vector<int> layers, int at_once,
                                 std::unique_ptr<tier::ValueCopies> copies)
    : at_once_(at_once), copies_(std::move(copies)) {
  for (const int layer : layers) storages_[layer];
}

StreamedWeights::~StreamedWeights() {
  copies_->abandon();
}

tier::ValueCopies::Key StreamedWeights::key(int layer) {
  return {.tape = false, .layer = layer, .micro_batch = 0};
}

bool StreamedWeights::are_of(int layer) const {
  return storages_.contains(layer);
}

void StreamedWeights::add(int layer, const std::vector<at::Tensor>& weights) {
  std::vector<c10::Storage>& storages = storages_.at(layer);
  ensure(storages.empty(), "the weights of a layer are added once");
  for (const at::Tensor& weight : weights) {
    ensure(weight.storage().nbytes() == weight.nbytes(), "a weight has a storage of its own");
    storages.push_back(weight.storage());
  }
  copies_->offload(key(layer), storages);
  copies_->release_next();
}

Bytes StreamedWeights::bytes() const {
  Bytes sum;
  for (const auto& [layer, storages] : storages_) sum += size_of(storages);
  return sum;
}

Bytes StreamedWeights::window() const {
  std::vector<Bytes> sizes;
  for (const auto& [layer, storages] : storages_) sizes.push_back(size_of(storages));
  return chain::weights_window(sizes, at_once_);
}

program::WeightUses StreamedWeights::uses(const std::vector<program::Action>& actions,
                                          int last) const {
  std::vector<bool> is_streamed(static_cast<std::size_t>(last) + 1);
  for (const auto& [layer, storages] : storages_)
    is_streamed.at(static_cast<std::size_t>(layer)) = true;
  return program::weight_uses(actions, is_streamed, at_once_);
}

std::vector<int> StreamedWeights::hold(const program::HeldWeights& held) {
  close();
  for (const int layer : here_.layers)
    if (!held.has(layer)) copies_->let_go(key(layer));
  const tier::TagScope tag(tier::Tag::kParameters);
  std::vector<int> coming;
  for (const int layer : held.layers) {
    if (here_.has(layer)) continue;
    copies_->prefetch(key(layer));
    copies_->begin_next();
    coming.push_back(layer);
  }
  here_ = held;
  return coming;
}

void StreamedWeights::await(int layer) {
  ensure(here_.has(layer), "weights are held before they are used");
  copies_->await_copy(key(layer));
}

tier::ValueCopies::Spans StreamedWeights::settle() {
  copies_->drain();
  return copies_->take_spans();
}

void StreamedWeights::bring(int layer) {
  if (changed_ == layer) return;
  hold({{layer}});
  await(layer);
}

void StreamedWeights::change(int layer, const std::function<void()>& change) {
  bring(layer);
  if (changed_ != layer) copies_->await(key(layer));
  changed_ = layer;
  change();
}

void StreamedWeights::close() {
  if (changed_ == 0) return;
  const int layer = std::exchange(changed_, 0);
  here_ = {};
  copies_->offload(key(layer), storages_.at(layer));
  copies_->release_next();
}

}  // namespace trireme::runtime
