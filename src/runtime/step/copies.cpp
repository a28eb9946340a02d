// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/copies.h"

#include "trireme/core/error.h"
#include "trireme/tier/storage_bytes.h"

#include <algorithm>
#include <utility>

namespace trireme::runtime {
namespace {

std::span<std::byte> bytes_of(const c10::Storage& storage) {
  return {static_cast<std::byte*>(storage.mutable_data()), storage.nbytes()};
}

}  // namespace

Copies::Copies(const tier::OffloadStoreOptions& store) : store_(store) {}

Copies::~Copies() {
  abandon();
}

void Copies::offload(Key key, std::vector<c10::Storage> storages) {
  auto value = std::make_unique<Offloaded>();
  value->storages = std::move(storages);
  for (const c10::Storage& storage : value->storages) {
    const Bytes size(static_cast<std::int64_t>(storage.nbytes()));
    value->places.push_back(store_.reserve(size));
  }
  Offloaded& moved = *value;
  ensure(offloaded_.emplace(key, std::move(value)).second, "a value leaves once");
  send(key, moved);
}

void Copies::send(Key key, Offloaded& value) {
  for (const c10::Storage& storage : value.storages)
    moved_ += Bytes(static_cast<std::int64_t>(storage.nbytes()));
  value.written = out_.post([this, &value] {
    for (std::size_t i = 0; i < value.storages.size(); ++i)
      store_.write(value.places[i], bytes_of(value.storages[i]));
  });
  leaving_.push_back(key);
}

void Copies::write_back(Key key) {
  send(key, offloaded(key));
}

void Copies::take(Key key) {
  take_bytes(offloaded(key));
}

void Copies::drain() {
  out_.drain();
  in_.drain();
}

Copies::Spans Copies::take_spans() {
  return {.out = out_.take_spans(), .in = in_.take_spans()};
}

Bytes Copies::take_moved() {
  return std::exchange(moved_, Bytes(0));
}

Copies::Key Copies::release_next() {
  ensure(!leaving_.empty(), "a copy out is under way");
  const Key key = leaving_.front();
  release(key);
  return key;
}

void Copies::release(Key key) {
  const auto found = std::find(leaving_.begin(), leaving_.end(), key);
  ensure(found != leaving_.end(), "what is released was copied out");
  Offloaded& value = offloaded(key);
  out_.wait(value.written);
  leaving_.erase(found);
  tier::free_bytes(value.storages);
}

void Copies::prefetch(Key key) {
  coming_.push_back(key);
}

Copies::Key Copies::begin_next() {
  ensure(!coming_.empty(), "a copy in was named");
  const Key key = coming_.front();
  coming_.pop_front();
  Offloaded& value = offloaded(key);
  take_bytes(value);
  value.read = in_.post([this, &value] {
    for (std::size_t i = 0; i < value.storages.size(); ++i)
      store_.read(value.places[i], bytes_of(value.storages[i]));
  });
  return key;
}

void Copies::take_bytes(const Offloaded& value) {
  for (const c10::Storage& storage : value.storages) {
    ensure(storage.data() == nullptr || storage.nbytes() == 0,
           "a copy out is released before its copy in");
    tier::take_bytes(storage);
  }
}

void Copies::await(Key key) {
  const auto found = offloaded_.find(key);
  if (found == offloaded_.end() || found->second->read == 0) return;
  in_.wait(found->second->read);
  for (const tier::OffloadStore::Allocation& place : found->second->places) store_.release(place);
  offloaded_.erase(found);
}

void Copies::await_copy(Key key) {
  in_.wait(offloaded(key).read);
}

void Copies::let_go(Key key) {
  await_copy(key);
  tier::free_bytes(offloaded(key).storages);
}

void Copies::abandon() noexcept {
  out_.abandon();
  in_.abandon();
  for (const auto& [key, value] : offloaded_) {
    for (const tier::OffloadStore::Allocation& place : value->places) store_.release(place);
  }
  offloaded_.clear();
  leaving_.clear();
  coming_.clear();
}

Copies::Offloaded& Copies::offloaded(Key key) {
  const auto found = offloaded_.find(key);
  ensure(found != offloaded_.end(), "the value is offloaded");
  return *found->second;
}

}  // namespace trireme::runtime
