// An NCCL communicator of one or two ranks. It is non-blocking: every call returns before NCCL has
// finished, which is then polled for, so that no call can hang.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <nccl.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::comm {

/// How long to poll, and a function to call meanwhile about every 50 ms, which may throw to end the
/// wait.
struct Patience {
  Seconds timeout{60};
  std::function<void()> look_round;
};

/// Polls until `ended` holds; returns whether it did within the timeout.
bool poll_until(const Patience& patience, const std::function<bool()>& ended);

/// Not thread-safe: calls, including abort(), need a lock. After a failure, abort() is still
/// needed.
class Communicator {
 public:
  /// The id that all ranks must pass; created by one of them.
  static std::string make_id();
  /// Collective. Throws CommError with NCCL's error text, after which nothing is left.
  Communicator(const std::string& id, int ranks, int rank, Patience patience);
  /// Aborts unless it was closed.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Enqueue on the stream; throw CommError if NCCL does not accept the call.
  void send(const std::byte* data, std::size_t size, int to, cudaStream_t stream);
  void receive(std::byte* data, std::size_t size, int from, cudaStream_t stream);
  /// Send and receive of a rank to itself, which NCCL only supports as one group.
  void pass_to_itself(const std::byte* from, std::byte* to, std::size_t size, cudaStream_t stream);

  /// The asynchronous error that NCCL reports, if any.
  std::optional<std::string> error();
  /// Collective, with nothing in progress.
  void close();
  /// Aborts pending operations on this rank alone. The buffers are free afterwards. NCCL frees
  /// device memory here, which waits until no kernel runs on the device, including kernels of other
  /// communicators that wait for messages which will not come. Abort all of them at once, each on
  /// its own thread (NVIDIA/nccl#549).
  void abort() noexcept;

 private:
  /// Waits until NCCL has finished the `call` that returned `result`; throws if it fails.
  void settle(ncclResult_t result, std::string_view call);
  [[noreturn]] void fail(ncclResult_t result, std::string_view call);

  ncclComm_t comm_ = nullptr;
  Patience patience_;
};

}  // namespace trireme::comm
