// Interface of libtrireme_mpi.so to the rest of the program, which neither links it nor includes an
// MPI header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/comm/channel.h"

#include <exception>
#include <functional>
#include <string>

namespace trireme::comm {

/// The ranks that a launcher started, for one run of theirs. Start and close are collective over
/// all ranks and must be called by the same thread.
class World {
 public:
  /// Without close(): makes no collective call, and this process will not finalize MPI at its exit,
  /// by which the launcher sees that it failed. Transfers must be destroyed before.
  virtual ~World() = default;

  virtual Channel& channel() = 0;
  /// Number of ranks of the world on this host, this one included.
  virtual int ranks_on_this_host() const = 0;
  /// Name and version of the MPI that it runs on: "Open MPI v4.1.4".
  virtual std::string library() const = 0;
  /// Collective: channel().close(), then ends everything of this run in MPI, with the same kind of
  /// time limit as its start.
  virtual void close() = 0;
  /// Ends all ranks of the job because this one failed with `error`. Exchanges causes with the
  /// others for up to two seconds, longer if every known cause is a consequence of another rank's
  /// not yet reported. The rank whose error is the root cause calls `say`, which prints it, and
  /// ends the job with its exit code; another rank does so only if that rank hangs.
  [[noreturn]] virtual void end_job(const std::exception& error,
                                    const std::function<void(const Cause&)>& say) = 0;
};

/// The library's one entry point, "trireme_mpi_start": starts a world as MpiWorld::start() does,
/// and throws what that throws. The caller owns the result. Returns null unless `version` is
/// kWorldVersion.
using StartWorld = World*(int version, const ChannelOptions& options);
/// Incremented with each change of this header, of channel.h or of cause.h: a library of another
/// build is refused.
inline constexpr int kWorldVersion = 1;

}  // namespace trireme::comm
