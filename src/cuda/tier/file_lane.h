// Copies between a GPU and the file of an offload store, in one direction: a thread, a stream and
// two pinned buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tier/own_stream.h"
#include "tier/pinned.h"

#include "trireme/tier/copy_lane.h"
#include "trireme/tier/file_relay.h"
#include "trireme/tier/offload_store.h"

#include <c10/cuda/CUDAEvent.h>

#include <array>
#include <deque>
#include <memory>
#include <vector>

namespace trireme::tier {

class StreamBuffers final : public EngineBuffers {
 public:
  explicit StreamBuffers(c10::DeviceIndex device);

  std::array<std::span<std::byte>, 2> buffers() const override;
  void begin_out(std::size_t buffer, const std::byte* from, std::size_t size) override;
  void begin_in(std::size_t buffer, std::byte* to, std::size_t size) override;
  void wait(std::size_t buffer) override;
  /// Blocks until no copy is under way.
  void settle();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  OwnStream own_stream_;
  const c10::cuda::CUDAStream& stream_ = own_stream_.get();
  std::unique_ptr<std::byte, Free> memory_;
  Pinned pinned_;
  std::array<c10::cuda::CUDAEvent, 2> ended_;
};

class FileLane {
 public:
  FileLane(c10::DeviceIndex device, OffloadStore& store, CopyDirection direction);

  /// Copies the parts once `ready` has happened and all earlier posts have ended.
  CopyLane::Ticket post(std::vector<FilePart> parts,
                        std::shared_ptr<const c10::cuda::CUDAEvent> ready);
  /// Blocks the host. Throws the error of a copy.
  void wait(CopyLane::Ticket ticket) { lane_.wait(ticket); }
  void drain() { lane_.drain(); }
  /// Times of the copies posted since the last call, including the wait for `ready`.
  std::deque<CopyLane::Span> take_spans() { return lane_.take_spans(); }
  void abandon() noexcept;

 private:
  c10::DeviceIndex device_;
  OffloadStore& store_;
  CopyDirection direction_;
  StreamBuffers buffers_;
  CopyLane lane_;  // last: it uses all of the above
};

}  // namespace trireme::tier
