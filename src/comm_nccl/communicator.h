// One NCCL communicator of one or two ranks. Every call returns before NCCL has done its part (it
// is set up as non-blocking) and is then followed up by polling, so that none can hang.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <nccl.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::comm {

/// How long to poll, and what to ask meanwhile about every 50 ms: throws to end the wait.
struct Patience {
  Seconds timeout{60};
  std::function<void()> look_round;
};

/// Polls until `ended` holds; whether it came to that within the timeout.
bool poll_until(const Patience& patience, const std::function<bool()>& ended);

/// Thread-compatible: two threads need a lock around one, abort() included. What has failed still
/// waits for its abort().
class Communicator {
 public:
  /// What the ranks must have in common; made by one of them.
  static std::string make_id();
  /// All ranks. Throws CommError with NCCL's own words, and leaves nothing behind then.
  Communicator(const std::string& id, int ranks, int rank, Patience patience);
  /// Aborts unless it was closed.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Put on the stream; CommError if NCCL does not take them.
  void send(const std::byte* data, std::size_t size, int to, cudaStream_t stream);
  void receive(std::byte* data, std::size_t size, int from, cudaStream_t stream);
  /// The two at once, of a rank to itself: NCCL knows no other way.
  void pass_to_itself(const std::byte* from, std::byte* to, std::size_t size, cudaStream_t stream);

  /// What has gone wrong since, by NCCL's own look.
  std::optional<std::string> error();
  /// All ranks, with nothing on the way.
  void close();
  /// Ends what is on the way, here alone. The buffers are free afterwards. NCCL frees device memory
  /// here, which takes until no kernel runs on the device: those of other communicators, too, that
  /// wait for messages which will not come. Abort all of them at once, each on its own thread
  /// (NVIDIA/nccl#549).
  void abort() noexcept;

 private:
  /// Until NCCL has done what `result` of `call` was the beginning of; else throws.
  void settle(ncclResult_t result, std::string_view call);
  [[noreturn]] void fail(ncclResult_t result, std::string_view call);

  ncclComm_t comm_ = nullptr;
  Patience patience_;
};

}  // namespace trireme::comm
