// Copies between a GPU and an offload store, whose memory is pinned, on two dedicated streams, one
// for each direction.
//
// The host does not wait: events order the streams. With C for the compute stream, and `out` and
// `in` for the copy streams:
//   offload    C records; out waits for it, copies, records `ended`
//   release    C waits for `ended`; the device bytes are freed on C
//   begin      device bytes are allocated on C; C records; in waits for it, copies, records `ended`
//   await      C waits for `ended`
//   let go     C waits for `ended`; the device bytes are freed on C
//   write back as offload, to the allocation of the copy in
//   take       device bytes are allocated on C
// Device bytes are allocated and freed on C alone, so their next user on C runs after the copy.
// Space in the store is reused only by a later offload, whose copy waits for C, which has waited
// for the copy in. Nothing is allocated on a side stream, so record_stream, which delays reuse of
// memory, is not needed.
//
// Pieces in the store's file go through two threads, one for each direction: a copy begins after
// C's event, and the host waits for its end in release and await.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tier/own_stream.h"
#include "tier/pinned.h"

#include "trireme/tier/file_relay.h"
#include "trireme/tier/offload_store.h"
#include "trireme/tier/value_copies.h"

#include <c10/cuda/CUDAEvent.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace trireme::tier {

class FileLane;

class StreamCopies final : public ValueCopies {
 public:
  /// Copies values on `device`, whose compute runs on the caller's current stream, always the same
  /// one. Allocates and pins the store's memory and makes its file now.
  StreamCopies(c10::DeviceIndex device, const OffloadStoreOptions& store);
  /// Waits for copies under way.
  ~StreamCopies() override;

  void offload(Key key, std::vector<c10::Storage> storages) override;
  Key release_next() override;
  void release(Key key) override;
  void prefetch(Key key) override;
  Key begin_next() override;
  void await(Key key) override;
  void await_copy(Key key) override;
  void let_go(Key key) override;
  void write_back(Key key) override;
  void take(Key key) override;
  void abandon() noexcept override;
  void drain() override;
  Spans take_spans() override;
  Bytes take_moved() override;
  Bytes offload_used() const override { return store_.used(); }
  Bytes offload_peak() const override { return store_.peak(); }

 private:
  /// When the copies of a value begin and end.
  struct Timed {
    c10::cuda::CUDAEvent begun{cudaEventDefault};  ///< on the stream; the file waits for it, too
    c10::cuda::CUDAEvent ended{cudaEventDefault};  ///< on the stream
    CopyLane::Ticket ticket = 0;                   ///< 0: no part of it is in the file
  };
  struct Offloaded {
    std::vector<c10::Storage> storages;
    std::vector<OffloadStore::Allocation> allocations;  ///< by storage
    std::shared_ptr<Timed> out, in;                     ///< `in` is null until it is copied in
    bool is_released = false;
  };
  /// Stream and file thread of one direction, and their copies.
  struct CopyQueue {
    CopyDirection direction;
    std::unique_ptr<OwnStream> own_stream;
    const c10::cuda::CUDAStream& stream() const { return own_stream->get(); }
    std::unique_ptr<FileLane> file;             ///< null where the store has no file
    std::deque<std::shared_ptr<Timed>> copies;  ///< since the last take_spans()
  };

  CopyQueue make_queue(CopyDirection direction);
  Offloaded& offloaded(Key key);
  void send(Key key, Offloaded& value);
  /// Starts to copy the whole value, ordered after the compute queued so far.
  std::shared_ptr<Timed> copy(const Offloaded& value, CopyQueue& queue);
  /// Orders compute queued from here on after these copies.
  void let_compute_wait(Timed& copies, CopyQueue& queue);
  void drain(CopyQueue& queue);
  void set_origin();
  std::deque<CopyLane::Span> spans_of(CopyQueue& queue) const;

  c10::DeviceIndex device_;
  OffloadStore store_;
  Pinned pinned_;
  CopyQueue out_, in_;
  std::map<Key, Offloaded> offloaded_;
  std::deque<Key> leaving_, coming_;
  Bytes moved_;

  c10::cuda::CUDAEvent origin_{cudaEventDefault};  ///< happened at origin_time_
  CopyLane::Clock::time_point origin_time_;
};

}  // namespace trireme::tier
