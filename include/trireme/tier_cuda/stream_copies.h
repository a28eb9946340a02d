// Copies between a GPU and pinned host memory on two streams of their own, one for each direction.
//
// The host never waits: order is kept by events. With C for compute's stream:
//   offload    C records; out waits for it, copies, records `ended`
//   release    C waits for `ended`; the device bytes go back to the allocator, as bytes of C
//   begin      device bytes are taken, as bytes of C; C records; in waits for it, copies, records
//              `ended`
//   await      C waits for `ended`
// Bytes are taken and freed on C alone, so whoever gets them next on C comes after the copy. A
// place in the slab is used again only by a later offload, whose copy waits for C, which has waited
// for the copy in. Nothing is allocated on a side stream, and record_stream, which makes the
// allocator wait for as long as it likes, is not needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/tier/value_copies.h"
#include "trireme/tier_cuda/pinned_slab.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace trireme::tier {

class StreamCopies final : public ValueCopies {
 public:
  /// Copies of values on `device`, whose compute runs on the caller's current stream, always the
  /// same one.
  StreamCopies(c10::DeviceIndex device, Bytes host);
  /// Waits for copies under way.
  ~StreamCopies() override;

  void offload(Key key, std::vector<c10::Storage> storages) override;
  Key release_next() override;
  void prefetch(Key key) override;
  Key begin_next() override;
  void await(Key key) override;
  void abandon() noexcept override;
  void drain() override;
  Spans take_spans() override;
  Bytes take_moved() override;
  Bytes outer_peak() const override { return slab_.peak(); }

 private:
  /// When a copy begins and ends on its stream.
  struct Timed {
    c10::cuda::CUDAEvent begun{cudaEventDefault}, ended{cudaEventDefault};
  };
  struct Away {
    std::vector<c10::Storage> storages;
    std::vector<std::vector<Places::Piece>> places;  ///< by storage
    std::shared_ptr<Timed> out, in;                  ///< `in` only once it comes back
    bool is_released = false;
  };
  enum class Direction { kOut, kIn };

  Away& away(Key key);
  std::shared_ptr<Timed> copy(const Away& value, Direction direction);
  void set_origin();
  std::deque<CopyLane::Span> spans_of(std::deque<std::shared_ptr<Timed>>& copies) const;

  c10::DeviceIndex device_;
  PinnedSlab slab_;
  c10::cuda::CUDAStream out_, in_;
  std::map<Key, Away> away_;
  std::deque<Key> leaving_, coming_;
  Bytes moved_;

  std::deque<std::shared_ptr<Timed>> outs_, ins_;  ///< since the last look
  c10::cuda::CUDAEvent origin_{cudaEventDefault};  ///< happened at origin_time_
  CopyLane::Clock::time_point origin_time_;
};

}  // namespace trireme::tier
