// MPI as a transport. One progress thread per process makes every MPI call after start, so that
// messages move while the rank computes, also without cross-memory attach.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/comm/channel.h"
#include "trireme/core/units.h"

#include <exception>
#include <functional>
#include <memory>

namespace trireme::comm {

/// Whether this process was started by mpirun (or srun with PMI) with its environment; makes no MPI
/// call.
bool launched_by_mpi();

/// Bytes of one MPI message at most: its counts are ints.
inline constexpr Bytes kLargestPiece{std::int64_t{1} << 30};

/// MPI from start to end. Move-only owner; starting and closing are collective over all ranks, and
/// done by the same thread.
class MpiWorld {
 public:
  /// MPI_Init_thread, one duplicate of the world communicator per Stream in their order and one
  /// for what the ranks tell each other, the progress thread. Larger messages than `piece` travel
  /// in several (the same on every rank; tests make it small). Ranks that do not come within four
  /// timeouts, 10 s at least, end this process with exit code 1, a stop request with 130: MPI_Init
  /// itself waits without end.
  static MpiWorld start(const ChannelOptions& options, Bytes piece = kLargestPiece);
  MpiWorld(MpiWorld&&) noexcept;
  MpiWorld& operator=(MpiWorld&&) noexcept;
  /// Without close(): stops the progress thread, makes no collective call. Transfers must be gone.
  ~MpiWorld();

  Channel& channel();
  /// Ranks of the world that share this machine's memory, this one included.
  int ranks_on_this_host() const;
  /// Replaces timeout and stop flag (the job is read after MPI is up).
  void set_options(const ChannelOptions& options);
  /// Every rank: channel().close(), then MPI_Finalize, whose waiting is limited in the same way.
  void close();
  /// Ends all ranks of the job because this one has failed with `error`. Tells the others and hears
  /// them for up to two seconds, longer where all that is known follows from what another rank has
  /// yet to say. The rank whose error is the cause calls `say`, which prints it, and ends the job
  /// with its exit code; another one does so only where that one hangs.
  [[noreturn]] void end_job(const std::exception& error,
                            const std::function<void(const Cause&)>& say);

 private:
  struct Impl;
  explicit MpiWorld(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::comm
