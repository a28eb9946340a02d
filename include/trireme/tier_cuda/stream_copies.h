// Copies between a GPU and an offload store, whose memory is pinned, on two streams of their own,
// one for each direction.
//
// The host does not wait: order is kept by events. With C for compute's stream:
//   offload    C records; out waits for it, copies, records `ended`
//   release    C waits for `ended`; the device bytes go back to the allocator, as bytes of C
//   begin      device bytes are taken, as bytes of C; C records; in waits for it, copies, records
//              `ended`
//   await      C waits for `ended`
//   let go     C waits for `ended`; the device bytes go back to the allocator
//   write back as offload, to the place of the copy in
//   take       device bytes are taken, as bytes of C
// Bytes are taken and freed on C alone, so whoever gets them next on C comes after the copy. A
// place in the store is used again only by a later offload, whose copy waits for C, which has
// waited for the copy in. Nothing is allocated on a side stream, and record_stream, which makes the
// allocator wait for as long as it likes, is not needed.
//
// What the store has in its file goes through two threads, one for each direction, whose begin
// waits for C's event and whose end the host waits for, in release and await.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/tier/file_relay.h"
#include "trireme/tier/offload_store.h"
#include "trireme/tier/value_copies.h"
#include "trireme/tier_cuda/pinned.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace trireme::tier {

class FileLane;

class StreamCopies final : public ValueCopies {
 public:
  /// Copies of values on `device`, whose compute runs on the caller's current stream, always the
  /// same one. Takes and pins the store's memory, and makes its file, now.
  StreamCopies(c10::DeviceIndex device, const OffloadStoreOptions& store);
  /// Waits for copies under way.
  ~StreamCopies() override;

  void offload(Key key, std::vector<c10::Storage> storages) override;
  Key release_next() override;
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
    c10::cuda::CUDAEvent begun{cudaEventDefault};  ///< on the stream, in the file, too
    c10::cuda::CUDAEvent ended{cudaEventDefault};  ///< on the stream
    CopyLane::Ticket ticket = 0;                   ///< 0: nothing of it is in the file
  };
  struct Away {
    std::vector<c10::Storage> storages;
    std::vector<OffloadStore::Place> places;  ///< by storage
    std::shared_ptr<Timed> out, in;           ///< `in` only once it comes back
    bool is_released = false;
  };
  /// One direction.
  struct Way {
    CopyDirection direction;
    c10::cuda::CUDAStream stream;
    std::unique_ptr<FileLane> file;             ///< null where the store has none
    std::deque<std::shared_ptr<Timed>> copies;  ///< since the last look
  };

  Way way(CopyDirection direction);
  Away& away(Key key);
  void send(Key key, Away& value);
  /// Starts to copy all of the value after what compute was given so far.
  std::shared_ptr<Timed> copy(const Away& value, Way& way);
  /// What compute is given from here on comes after these copies.
  void let_compute_wait(Timed& copies, Way& way);
  void drain(Way& way);
  void set_origin();
  std::deque<CopyLane::Span> spans_of(Way& way) const;

  c10::DeviceIndex device_;
  OffloadStore store_;
  Pinned pinned_;
  Way out_, in_;
  std::map<Key, Away> away_;
  std::deque<Key> leaving_, coming_;
  Bytes moved_;

  c10::cuda::CUDAEvent origin_{cudaEventDefault};  ///< happened at origin_time_
  CopyLane::Clock::time_point origin_time_;
};

}  // namespace trireme::tier
