// The few MPI calls of start and end, and the one place that turns MPI's error codes into errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <mpi.h>

#include <array>
#include <string>
#include <string_view>

namespace trireme::comm {

/// Throws CommError "MPI_Isend: MPI's own words" unless `code` is MPI_SUCCESS.
void check(int code, std::string_view call);

/// MPI's words for an error code.
std::string mpi_text(int code);

struct Communicators {
  std::array<MPI_Comm, kStreams> streams{};
  MPI_Comm control = MPI_COMM_NULL;  ///< what ranks tell each other beside the messages
  int rank = 0;
  int size = 1;
};

/// MPI_Init_thread; every rank. The calling thread must be the one that ends MPI too.
void begin_mpi();
/// One communicator per Stream in their order, then the control one; every rank.
Communicators duplicate_world();
/// Every rank.
int count_ranks_on_this_host();
bool mpi_is_running();

}  // namespace trireme::comm
