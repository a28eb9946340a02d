// MPI calls at start and end, and the conversion of MPI's error codes into errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <mpi.h>

#include <array>
#include <string>
#include <string_view>

namespace trireme::comm {

/// Throws CommError "MPI_Isend: MPI's error text" unless `code` is MPI_SUCCESS.
void check(int code, std::string_view call);

/// MPI's text for an error code.
std::string mpi_text(int code);

struct Communicators {
  std::array<MPI_Comm, kStreams> streams{};
  MPI_Comm control = MPI_COMM_NULL;  ///< for control messages
  int rank = 0;
  int size = 1;
};

/// Collective the first time: calls MPI_Init_thread, unless MPI runs already. Returns whether it
/// did. Throws CommError if MPI was finalized.
bool begin_mpi();
/// Throws CommError unless any thread may make MPI calls, one at a time.
void require_serialized();
/// Collective; one communicator per Stream in their order, then the control one.
Communicators duplicate_world();
/// Collective; no request of theirs is left.
void free_communicators(Communicators& communicators);
/// Collective.
int count_ranks_on_this_host(const Communicators& communicators);
/// Name and version of this MPI, as it says them: "Open MPI v4.1.4", "MPICH Version: 4.0.2".
std::string mpi_library();
bool mpi_is_running();

}  // namespace trireme::comm
