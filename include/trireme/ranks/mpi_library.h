// Loading libtrireme_mpi.so where a launcher started this process: any other run neither needs an
// MPI nor pays for loading it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/comm/world.h"

#include <filesystem>
#include <memory>

namespace trireme::ranks {

/// Path of the library: next to the file that holds this code. It need not exist.
std::filesystem::path mpi_library();

/// Collective: loads that library and starts a world (comm/world.h). Throws InputError that says
/// what is missing and what to install, or that the launcher is of another MPI than the library's
/// and its processes would not find each other; CommError as MpiWorld::start() does.
std::unique_ptr<comm::World> start_world(const comm::ChannelOptions& options);

/// As above, with a library at another path.
std::unique_ptr<comm::World> start_world(const std::filesystem::path& library,
                                         const comm::ChannelOptions& options);

}  // namespace trireme::ranks
