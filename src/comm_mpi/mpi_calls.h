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

/// Collective; calls MPI_Init_thread. The calling thread must also be the one that finalizes MPI.
void begin_mpi();
/// Collective; one communicator per Stream in their order, then the control one.
Communicators duplicate_world();
/// Collective.
int count_ranks_on_this_host();
bool mpi_is_running();

}  // namespace trireme::comm
