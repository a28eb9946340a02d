// One link at one of its ends: a communicator and a CUDA stream of its own, and the messages on
// their way. A message that is not matched yet blocks its stream; with a stream for each direction
// of each boundary it blocks nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "communicator.h"

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
  std::unique_ptr<Transfer> announcement;  ///< of `announced`, over the other transport
  c10::cuda::CUDAEvent ready;              ///< what compute did before
  c10::cuda::CUDAEvent ended;
  /// The same, by the device's own doing: for who must not call CUDA.
  std::shared_ptr<std::atomic<bool>> has_left = std::make_shared<std::atomic<bool>>(false);
  std::chrono::steady_clock::time_point issued_at;
};
using NcclMessagePtr = std::shared_ptr<NcclMessage>;

/// A stream that nobody else has: LibTorch's pool hands its 32 out again and again, and a copy that
/// was put behind a message would wait for the other rank.
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

/// Not thread-safe; the channel has the lock.
class NcclLink {
 public:
  /// Both ends, with the same id.
  NcclLink(const Link& link, int rank, const std::string& id, const Patience& patience,
           c10::DeviceIndex device);

  const Link& link() const { return link_; }
  int peer() const { return link_.from == rank_ ? link_.to : link_.from; }
  bool is_idle() const { return sends_.empty() && receives_.empty() && issued_.empty(); }

  /// Takes the message; it is given to NCCL at once, or, if it is a receive, once it is announced.
  void post(const NcclMessagePtr& message);
  /// Gives to NCCL what may be given. Asks announcements, so only for the channel's own thread.
  void advance();
  /// Notices what has ended.
  void look(const NcclMessagePtr& message);
  /// The message is not used any more, whatever it takes: unless it has ended, the link is given
  /// up. Whether NCCL may have its buffer until the abort.
  bool withdraw(const NcclMessagePtr& message);
  /// Gives the link up if NCCL reports an error.
  void look_for_errors();
  /// Messages that were given to NCCL before `time` and have not ended. Calls nothing of CUDA's,
  /// where a thread may wait for a lock that another one has which hangs there.
  bool is_overdue(std::chrono::steady_clock::time_point time) const;

  /// What is on the way fails with this, and so does all that comes. What NCCL has of it stays on
  /// the device until abort(), which the channel calls for all links at once.
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
  std::deque<NcclMessagePtr> sends_;     ///< to itself: until the receive is there
  std::deque<NcclMessagePtr> receives_;  ///< until they are announced
  std::deque<NcclMessagePtr> issued_;
  std::optional<std::string> given_up_;
};

}  // namespace trireme::comm
