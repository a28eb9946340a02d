// One direction between two ranks: a communicator, a CUDA stream of its own and the pending
// messages, which it queues on the device in one order on both ranks. A message blocks its stream
// until both devices reach it; every direction has a stream of its own, and a send is queued only
// once its receive is ready, so what a message waits for never waits for that message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nccl/communicator.h"
#include "nccl/signals.h"
#include "tier/own_stream.h"

#include <c10/cuda/CUDAEvent.h>

#include <array>
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
  Stream stream = Stream::kOutputs;
  std::byte* data = nullptr;  ///< never written through by a send
  std::size_t size = 0;
  State state = State::kPosted;
  std::string problem;

  c10::cuda::CUDAEvent ready;  ///< after the work queued before the message
  c10::cuda::CUDAEvent ended;
  /// Like `ended`, but set by the device: for a thread that must not call CUDA.
  std::shared_ptr<std::atomic<bool>> has_left = std::make_shared<std::atomic<bool>>(false);
  std::chrono::steady_clock::time_point issued_at;
};
using NcclMessagePtr = std::shared_ptr<NcclMessage>;

/// Not thread-safe; the channel holds the lock.
class NcclLink {
 public:
  /// Collective over both ends, with the same id. `signals`, with the other rank, must outlive it
  /// and is null for a link to itself.
  NcclLink(int from, int to, Signals* signals, const std::string& id, const Patience& patience,
           c10::DeviceIndex device);

  int from() const { return from_; }
  int to() const { return to_; }
  int peer() const { return signals_ == nullptr ? from_ : signals_->peer(); }
  bool is_idle() const;

  /// Takes the message: it is passed to NCCL once the other rank has its side of it, too. Only for
  /// the channel's own thread, as take().
  void post(const NcclMessagePtr& message);
  /// Acts on a signal of the other rank about a message of this link.
  void take(const Signal& signal);
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
  struct Posted {
    std::deque<NcclMessagePtr> sends, receives;  ///< in their order, not passed to NCCL yet
    int ready = 0;                               ///< receives of the other rank without a send yet
  };

  Posted& posted(Stream stream) { return posted_.at(static_cast<std::size_t>(stream)); }
  void send_what_is_ready(Posted& posted);
  void receive_next(Posted& posted, std::size_t sent);
  void pass_to_itself(Posted& posted);
  /// Queues `messages`, the two of a link to itself or one of them, by `call`.
  template <class Call>
  void issue(std::initializer_list<NcclMessagePtr> messages, const Call& call);
  void mark_end(const NcclMessagePtr& message);

  int from_, to_;
  Signals* signals_;
  tier::OwnStream own_stream_;
  const c10::cuda::CUDAStream& stream_ = own_stream_.get();
  Communicator communicator_;
  std::array<Posted, kStreams> posted_;
  std::deque<NcclMessagePtr> issued_;
  std::optional<std::string> given_up_;
};

}  // namespace trireme::comm
