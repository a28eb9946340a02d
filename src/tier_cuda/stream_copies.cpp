// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier_cuda/stream_copies.h"

#include "trireme/core/error.h"
#include "trireme/tier_cuda/cuda_calls.h"

#include <c10/core/Allocator.h>
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

/// What `waits` does from here on comes after all that `goes_first` was given so far.
void order(const c10::cuda::CUDAStream& goes_first, const c10::cuda::CUDAStream& waits) {
  c10::cuda::CUDAEvent event;
  event.record(goes_first);
  event.block(waits);
}

}  // namespace

StreamCopies::StreamCopies(c10::DeviceIndex device, Bytes host)
    : device_(device),
      slab_(host),
      out_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device)),
      in_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device)) {
  set_origin();
}

StreamCopies::~StreamCopies() {
  abandon();
}

void StreamCopies::offload(Key key, std::vector<c10::Storage> storages) {
  const auto [at, added] = away_.emplace(key, Away{.storages = std::move(storages)});
  ensure(added, "a value leaves once");
  Away& value = at->second;
  for (const c10::Storage& storage : value.storages) {
    value.places.push_back(slab_.reserve(size_of(storage)));
    moved_ += size_of(storage);
  }
  order(c10::cuda::getCurrentCUDAStream(device_), out_);
  value.out = copy(value, Direction::kOut);
  outs_.push_back(value.out);
  leaving_.push_back(key);
}

StreamCopies::Key StreamCopies::release_next() {
  ensure(!leaving_.empty(), "a copy out is under way");
  const Key key = leaving_.front();
  leaving_.pop_front();
  Away& value = away(key);
  value.out->ended.block(c10::cuda::getCurrentCUDAStream(device_));
  for (const c10::Storage& storage : value.storages)
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(nullptr, storage.device()));
  value.is_released = true;
  return key;
}

void StreamCopies::prefetch(Key key) {
  coming_.push_back(key);
}

StreamCopies::Key StreamCopies::begin_next() {
  ensure(!coming_.empty(), "a copy in was named");
  const Key key = coming_.front();
  coming_.pop_front();
  Away& value = away(key);
  ensure(value.is_released, "a copy out is let go of before its copy in");
  const c10::cuda::CUDAGuard on_device(device_);
  for (const c10::Storage& storage : value.storages) {
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
        c10::GetAllocator(c10::DeviceType::CUDA)->allocate(storage.nbytes()));
  }
  order(c10::cuda::getCurrentCUDAStream(device_), in_);
  value.in = copy(value, Direction::kIn);
  ins_.push_back(value.in);
  return key;
}

void StreamCopies::await(Key key) {
  const auto found = away_.find(key);
  if (found == away_.end() || !found->second.in) return;
  found->second.in->ended.block(c10::cuda::getCurrentCUDAStream(device_));
  for (const auto& pieces : found->second.places) slab_.release(pieces);
  away_.erase(found);
}

void StreamCopies::abandon() noexcept {
  try {
    drain();
  } catch (const std::exception& error) {
    // The device is lost; so are the copies, and the error that matters is on its way already.
    std::fprintf(stderr, "trireme: copies were given up: %s\n", error.what());
  }
  for (const auto& [key, value] : away_) {
    for (const auto& pieces : value.places) slab_.release(pieces);
  }
  away_.clear();
  leaving_.clear();
  coming_.clear();
}

void StreamCopies::drain() {
  check(cudaStreamSynchronize(out_), "the end of copies out");
  check(cudaStreamSynchronize(in_), "the end of copies in");
}

StreamCopies::Spans StreamCopies::take_spans() {
  Spans spans{.out = spans_of(outs_), .in = spans_of(ins_)};
  set_origin();
  return spans;
}

Bytes StreamCopies::take_moved() {
  return std::exchange(moved_, Bytes(0));
}

StreamCopies::Away& StreamCopies::away(Key key) {
  const auto found = away_.find(key);
  ensure(found != away_.end(), "the value is away");
  return found->second;
}

std::shared_ptr<StreamCopies::Timed> StreamCopies::copy(const Away& value, Direction direction) {
  const c10::cuda::CUDAGuard on_device(device_);
  const bool goes_out = direction == Direction::kOut;
  const c10::cuda::CUDAStream& stream = goes_out ? out_ : in_;
  auto timed = std::make_shared<Timed>();
  timed->begun.record(stream);
  for (std::size_t i = 0; i < value.storages.size(); ++i) {
    auto* device = static_cast<std::byte*>(value.storages[i].mutable_data());
    std::int64_t left = size_of(value.storages[i]).count();
    for (const Places::Piece& piece : value.places[i]) {
      const auto size = static_cast<std::size_t>(std::min(piece.size, left));
      std::byte* const host = slab_.at(piece);
      check(goes_out ? cudaMemcpyAsync(host, device, size, cudaMemcpyDeviceToHost, stream)
                     : cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, stream),
            goes_out ? "a copy out" : "a copy in");
      device += size;
      left -= static_cast<std::int64_t>(size);
    }
  }
  timed->ended.record(stream);
  return timed;
}

void StreamCopies::set_origin() {
  origin_.record(out_);
  origin_.synchronize();
  origin_time_ = CopyLane::Clock::now();
}

std::deque<CopyLane::Span> StreamCopies::spans_of(
    std::deque<std::shared_ptr<Timed>>& copies) const {
  const auto time_of = [this](const c10::cuda::CUDAEvent& event) {
    const std::chrono::duration<double, std::milli> since_origin(origin_.elapsed_time(event));
    return origin_time_ + std::chrono::duration_cast<CopyLane::Clock::duration>(since_origin);
  };
  std::deque<CopyLane::Span> spans;
  for (const auto& timed : copies) spans.push_back({time_of(timed->begun), time_of(timed->ended)});
  copies.clear();
  return spans;
}

}  // namespace trireme::tier
