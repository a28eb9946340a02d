// MPI transport. After start, one progress thread per process makes every MPI call, so that
// messages advance while the rank computes, even without cross-memory attach.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/comm/channel.h"
#include "trireme/core/units.h"

#include <exception>
#include <functional>
#include <memory>

namespace trireme::comm {

/// Whether mpirun (or srun with PMI) started this process, judged by its environment; makes no MPI
/// call.
bool launched_by_mpi();

/// Maximum bytes per MPI message: MPI counts are ints.
inline constexpr Bytes kLargestPiece{std::int64_t{1} << 30};

/// Owns MPI from init to finalize. Move-only; start and close are collective over all ranks and
/// must be called by the same thread.
class MpiWorld {
 public:
  /// Calls MPI_Init_thread, duplicates the world communicator once per Stream in their order and
  /// once for control messages, and starts the progress thread. Messages larger than `piece` are
  /// split (the same on every rank; tests make it small). If ranks do not start within four
  /// timeouts, at least 10 s, this process exits with code 1, on a stop request with 130: MPI_Init
  /// itself has no timeout.
  static MpiWorld start(const ChannelOptions& options, Bytes piece = kLargestPiece);
  MpiWorld(MpiWorld&&) noexcept;
  MpiWorld& operator=(MpiWorld&&) noexcept;
  /// Without close(): stops the progress thread and makes no collective call. Transfers must be
  /// destroyed before.
  ~MpiWorld();

  Channel& channel();
  /// Number of ranks of the world on this host, this one included.
  int ranks_on_this_host() const;
  /// Replaces timeout and stop flag (the job is read after MPI has started).
  void set_options(const ChannelOptions& options);
  /// Collective: channel().close(), then MPI_Finalize, with the same kind of time limit.
  void close();
  /// Ends all ranks of the job because this one failed with `error`. Exchanges causes with the
  /// others for up to two seconds, longer if every known cause is a consequence of another rank's
  /// not yet reported. The rank whose error is the root cause calls `say`, which prints it, and
  /// ends the job with its exit code; another rank does so only if that rank hangs.
  [[noreturn]] void end_job(const std::exception& error,
                            const std::function<void(const Cause&)>& say);

 private:
  struct Impl;
  explicit MpiWorld(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::comm
