// The entry point of libtrireme_mpi.so.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/world.h"
#include "trireme/comm_mpi/world.h"

extern "C" trireme::comm::StartWorld trireme_mpi_start;

extern "C" trireme::comm::World* trireme_mpi_start(int version,
                                                   const trireme::comm::ChannelOptions& options) {
  if (version != trireme::comm::kWorldVersion) return nullptr;
  return trireme::comm::MpiWorld::start(options).release();
}
