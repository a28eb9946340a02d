// MPI transport. While a run lasts, one progress thread per process makes every MPI call, so that
// messages advance while the rank computes, even without cross-memory attach.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/world.h"
#include "trireme/core/units.h"

#include <memory>

namespace trireme::comm {

/// Maximum bytes per MPI message: MPI counts are ints.
inline constexpr Bytes kLargestPiece{std::int64_t{1} << 30};

/// A world over MPI, of which a process may have one after another. MPI itself runs from the first
/// one until the process exits, or is the caller's: then it must run at MPI_THREAD_SERIALIZED at
/// least, since the progress thread is not the one that started it, and is never finalized here. At
/// that level the caller makes no MPI call between start and close; at MPI_THREAD_MULTIPLE it may.
class MpiWorld final : public World {
 public:
  /// Calls MPI_Init_thread unless MPI runs already, duplicates the world communicator once per
  /// Stream in their order and once for control messages, and starts the progress thread. Messages
  /// larger than `piece` are split (the same on every rank; tests make it small). If ranks do not
  /// start within four timeouts, at least 10 s, this process exits with code 1, on a stop request
  /// with 130: MPI_Init itself has no timeout. Throws CommError if MPI was finalized, runs at a
  /// lower level, or serves another world that was not closed.
  static std::unique_ptr<MpiWorld> start(const ChannelOptions& options,
                                         Bytes piece = kLargestPiece);
  ~MpiWorld() override;
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  Channel& channel() override;
  int ranks_on_this_host() const override;
  std::string library() const override;
  /// Replaces timeout and stop flag (tests have several of each).
  void set_options(const ChannelOptions& options);
  void close() override;
  [[noreturn]] void end_job(const std::exception& error,
                            const std::function<void(const Cause&)>& say) override;

 private:
  struct Impl;
  explicit MpiWorld(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::comm
