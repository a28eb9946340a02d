// SPDX-License-Identifier: Apache-2.0
#include "tier/stream_copies.h"

#include "tier/cuda_calls.h"
#include "tier/file_lane.h"

#include "trireme/core/error.h"
#include "trireme/core/visible.h"
#include "trireme/tier/storage_bytes.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

namespace trireme::tier {
namespace {

Bytes size_of(const c10::Storage& storage) {
  return Bytes(static_cast<std::int64_t>(storage.nbytes()));
}

/// Orders later work of `waits` after all work queued on `goes_first` so far.
void order(const c10::cuda::CUDAStream& goes_first, const c10::cuda::CUDAStream& waits) {
  c10::cuda::CUDAEvent event;
  event.record(goes_first);
  event.block(waits);
}

}  // namespace

StreamCopies::StreamCopies(c10::DeviceIndex device, const OffloadStoreOptions& store)
    : device_(device),
      store_(store),
      pinned_(store_.host(), "the offload tier", "memory.host_budget asks for it"),
      out_(make_queue(CopyDirection::kOut)),
      in_(make_queue(CopyDirection::kIn)) {
  set_origin();
}

StreamCopies::~StreamCopies() {
  abandon();
}

void StreamCopies::offload(Key key, std::vector<c10::Storage> storages) {
  const auto [at, added] = offloaded_.emplace(key, Offloaded{.storages = std::move(storages)});
  ensure(added, "a value leaves once");
  Offloaded& value = at->second;
  for (const c10::Storage& storage : value.storages)
    value.allocations.push_back(store_.reserve(size_of(storage)));
  send(key, value);
}

void StreamCopies::send(Key key, Offloaded& value) {
  for (const c10::Storage& storage : value.storages) moved_ += size_of(storage);
  value.out = copy(value, out_);
  value.is_released = false;
  leaving_.push_back(key);
}

StreamCopies::Key StreamCopies::release_next() {
  ensure(!leaving_.empty(), "a copy out is under way");
  const Key key = leaving_.front();
  release(key);
  return key;
}

void StreamCopies::release(Key key) {
  const auto found = std::find(leaving_.begin(), leaving_.end(), key);
  ensure(found != leaving_.end(), "what is released was copied out");
  leaving_.erase(found);
  Offloaded& value = offloaded(key);
  let_compute_wait(*value.out, out_);
  free_bytes(value.storages);
  value.is_released = true;
}

void StreamCopies::prefetch(Key key) {
  coming_.push_back(key);
}

StreamCopies::Key StreamCopies::begin_next() {
  ensure(!coming_.empty(), "a copy in was named");
  const Key key = coming_.front();
  coming_.pop_front();
  Offloaded& value = offloaded(key);
  ensure(value.is_released, "a copy out is released before its copy in");
  const c10::cuda::CUDAGuard on_device(device_);
  for (const c10::Storage& storage : value.storages) take_bytes(storage);
  value.in = copy(value, in_);
  return key;
}

void StreamCopies::await(Key key) {
  const auto found = offloaded_.find(key);
  if (found == offloaded_.end() || !found->second.in) return;
  let_compute_wait(*found->second.in, in_);
  for (const OffloadStore::Allocation& one : found->second.allocations) store_.release(one);
  offloaded_.erase(found);
}

void StreamCopies::await_copy(Key key) {
  Offloaded& value = offloaded(key);
  if (value.in) let_compute_wait(*value.in, in_);
}

void StreamCopies::let_go(Key key) {
  await_copy(key);
  free_bytes(offloaded(key).storages);
}

void StreamCopies::write_back(Key key) {
  send(key, offloaded(key));
}

void StreamCopies::take(Key key) {
  Offloaded& value = offloaded(key);
  ensure(value.is_released, "a copy out is released before device bytes are taken again");
  const c10::cuda::CUDAGuard on_device(device_);
  for (const c10::Storage& storage : value.storages) take_bytes(storage);
}

void StreamCopies::abandon() noexcept {
  for (CopyQueue* const queue : {&out_, &in_}) {
    if (queue->file) queue->file->abandon();
    queue->copies.clear();
  }
  try {
    drain();
  } catch (const std::exception& error) {
    // The device is lost, and so are the copies; the error that matters is reported already.
    std::fprintf(stderr, "trireme: copies were given up: %s\n", visible(error.what()).c_str());
  }
  for (const auto& [key, value] : offloaded_) {
    for (const OffloadStore::Allocation& one : value.allocations) store_.release(one);
  }
  offloaded_.clear();
  leaving_.clear();
  coming_.clear();
}

void StreamCopies::drain() {
  drain(out_);
  drain(in_);
}

void StreamCopies::drain(CopyQueue& queue) {
  if (queue.file) queue.file->drain();
  check(cudaStreamSynchronize(queue.stream()),
        queue.direction == CopyDirection::kOut ? "the end of copies out" : "the end of copies in");
}

StreamCopies::Spans StreamCopies::take_spans() {
  Spans spans{.out = spans_of(out_), .in = spans_of(in_)};
  set_origin();
  return spans;
}

Bytes StreamCopies::take_moved() {
  return std::exchange(moved_, Bytes(0));
}

StreamCopies::CopyQueue StreamCopies::make_queue(CopyDirection direction) {
  return {.direction = direction,
          .own_stream = std::make_unique<OwnStream>(device_, StreamUse::kCopies),
          .file = store_.descriptor() < 0 ? nullptr
                                          : std::make_unique<FileLane>(device_, store_, direction),
          .copies = {}};
}

StreamCopies::Offloaded& StreamCopies::offloaded(Key key) {
  const auto found = offloaded_.find(key);
  ensure(found != offloaded_.end(), "the value is offloaded");
  return found->second;
}

std::shared_ptr<StreamCopies::Timed> StreamCopies::copy(const Offloaded& value, CopyQueue& queue) {
  const c10::cuda::CUDAGuard on_device(device_);
  const bool goes_out = queue.direction == CopyDirection::kOut;
  order(c10::cuda::getCurrentCUDAStream(device_), queue.stream());
  auto timed = std::make_shared<Timed>();
  timed->begun.record(queue.stream());
  std::vector<FilePart> in_file;
  for (std::size_t i = 0; i < value.storages.size(); ++i) {
    auto* device = static_cast<std::byte*>(value.storages[i].mutable_data());
    std::int64_t left = size_of(value.storages[i]).count();
    for (const Places::Piece& piece : value.allocations[i].pieces) {
      const std::int64_t size = std::min(piece.size, left);
      if (store_.is_in_file(piece)) {
        in_file.push_back({.offset = piece.offset, .size = size, .device = device});
      } else {
        std::byte* const host = store_.host().data() + piece.offset;
        check(cudaMemcpyAsync(goes_out ? host : device, goes_out ? device : host,
                              static_cast<std::size_t>(size),
                              goes_out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                              queue.stream()),
              goes_out ? "a copy out" : "a copy in");
      }
      device += size;
      left -= size;
    }
  }
  timed->ended.record(queue.stream());
  if (!in_file.empty()) {
    timed->ticket = queue.file->post(
        std::move(in_file), std::shared_ptr<const c10::cuda::CUDAEvent>(timed, &timed->begun));
  }
  queue.copies.push_back(timed);
  return timed;
}

void StreamCopies::let_compute_wait(Timed& copies, CopyQueue& queue) {
  copies.ended.block(c10::cuda::getCurrentCUDAStream(device_));
  if (copies.ticket != 0) queue.file->wait(copies.ticket);
}

void StreamCopies::set_origin() {
  origin_.record(out_.stream());
  origin_.synchronize();
  origin_time_ = CopyLane::Clock::now();
}

std::deque<CopyLane::Span> StreamCopies::spans_of(CopyQueue& queue) const {
  const auto time_of = [this](const c10::cuda::CUDAEvent& event) {
    const std::chrono::duration<double, std::milli> since_origin(origin_.elapsed_time(event));
    return origin_time_ + std::chrono::duration_cast<CopyLane::Clock::duration>(since_origin);
  };
  std::deque<CopyLane::Span> spans, in_file;
  if (queue.file) in_file = queue.file->take_spans();  // one for each copy that has a ticket
  for (const auto& timed : queue.copies) {
    CopyLane::Span span{time_of(timed->begun), time_of(timed->ended)};
    if (timed->ticket != 0) {
      span.end = std::max(span.end, in_file.front().end);
      in_file.pop_front();
    }
    spans.push_back(span);
  }
  queue.copies.clear();
  return spans;
}

}  // namespace trireme::tier
