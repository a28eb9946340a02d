// MPI as a transport. One progress thread per process makes every MPI call after start, so that
// messages move while the rank computes, also without cross-memory attach. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <memory>

namespace trireme::comm {

/// Whether this process was started by mpirun (or srun with PMI) with its environment; makes no MPI
/// call.
bool launched_by_mpi();

/// MPI from start to end. Move-only owner; starting and closing are collective over all ranks.
class MpiWorld {
 public:
  /// MPI_Init_thread, one duplicate of the world communicator per Stream in their order, the
  /// progress thread.
  static MpiWorld start(const ChannelOptions& options);
  MpiWorld(MpiWorld&&) noexcept;
  MpiWorld& operator=(MpiWorld&&) noexcept;
  /// Without close(): stops the progress thread, makes no collective call.
  ~MpiWorld();

  Channel& channel();
  /// Ranks of the world that share this machine's memory, this one included.
  int ranks_on_this_host() const;
  /// Replaces timeout and stop flag (the job is read after MPI is up).
  void set_options(const ChannelOptions& options);
  /// Every rank: channel().close(), then MPI_Finalize.
  void close();
  /// Ends all ranks of the job with this exit code, after Channel::abandon.
  [[noreturn]] void kill_job(int exit_code);

 private:
  struct Impl;
  explicit MpiWorld(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::comm
