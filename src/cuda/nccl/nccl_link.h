// One end of a link: a communicator, a CUDA stream of its own, and the pending messages. A message
// that is not matched yet blocks its stream; since every direction of every boundary has its own
// stream, it blocks nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nccl/communicator.h"

#include "trireme/comm/link.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace trireme::comm {

/// A send or a receive of device memory.
struct NcclMessage {
  enum class State { kPosted, kIssued, kDone, kFailed };

  bool outgoing = false;
  std::byte* data = nullptr;  ///< never written through by a send
  std::size_t size = 0;
  State state = State::kPosted;
  std::string problem;

  std::uint64_t announced = 0;             ///< the sender's size
  std::unique_ptr<Transfer> announcement;  ///< carries `announced` over the other transport
  c10::cuda::CUDAEvent ready;              ///< after the work queued before the message
  c10::cuda::CUDAEvent ended;
  /// Like `ended`, but set by the device: for a thread that must not call CUDA.
  std::shared_ptr<std::atomic<bool>> has_left = std::make_shared<std::atomic<bool>>(false);
  std::chrono::steady_clock::time_point issued_at;
};
using NcclMessagePtr = std::shared_ptr<NcclMessage>;

/// A stream used by nothing else: LibTorch's pool reuses its 32 streams, and a copy queued after a
/// message would wait for the other rank.
class OwnStream {
 public:
  explicit OwnStream(c10::DeviceIndex device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const c10::cuda::CUDAStream& get() const { return stream_; }

 private:
  c10::cuda::CUDAStream stream_;
};

/// Not thread-safe; the channel holds the lock.
class NcclLink {
 public:
  /// Collective over both ends, with the same id.
  NcclLink(const Link& link, int rank, const std::string& id, const Patience& patience,
           c10::DeviceIndex device);

  const Link& link() const { return link_; }
  int peer() const { return link_.from == rank_ ? link_.to : link_.from; }
  bool is_idle() const { return sends_.empty() && receives_.empty() && issued_.empty(); }

  /// Takes the message; it is passed to NCCL immediately, or, if it is a receive, once it is
  /// announced.
  void post(const NcclMessagePtr& message);
  /// Passes to NCCL what may be passed. Checks announcements, so only for the channel's own thread.
  void advance();
  /// Updates the message's state if it has ended.
  void look(const NcclMessagePtr& message);
  /// Withdraws the message: unless it has ended, the link is given up. Returns whether NCCL may use
  /// its buffer until the abort.
  bool withdraw(const NcclMessagePtr& message);
  /// Gives the link up if NCCL reports an error.
  void look_for_errors();
  /// Whether a message that was passed to NCCL before `time` has not ended. Does not call CUDA,
  /// where a thread may wait for a lock held by a thread that hangs there.
  bool is_overdue(std::chrono::steady_clock::time_point time) const;

  /// Pending and later messages fail with this. What NCCL holds of them stays on the device until
  /// abort(), which the channel calls for all links at once.
  void give_up(const std::string& problem);
  const std::optional<std::string>& given_up() const { return given_up_; }
  void abort() noexcept { communicator_.abort(); }
  void close() { communicator_.close(); }

 private:
  bool is_to_itself() const { return link_.from == link_.to; }
  void issue_send(const NcclMessagePtr& message);
  void issue_receive(const NcclMessagePtr& message);
  void issued(const NcclMessagePtr& message);

  Link link_;
  int rank_;
  OwnStream own_stream_;
  const c10::cuda::CUDAStream& stream_ = own_stream_.get();
  Communicator communicator_;
  std::deque<NcclMessagePtr> sends_;     ///< to itself: until the receive is started
  std::deque<NcclMessagePtr> receives_;  ///< until they are announced
  std::deque<NcclMessagePtr> issued_;
  std::optional<std::string> given_up_;
};

}  // namespace trireme::comm
