// The one MPI world of a test program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/transport.h"

#include "trireme/comm_mpi/world.h"

#include <functional>
#include <memory>

namespace trireme::comm {

/// Started by main() before the tests.
inline std::unique_ptr<MpiWorld>& world() {
  static std::unique_ptr<MpiWorld> the_world;
  return the_world;
}

/// The backend of the conformance suites: all ranks of the world enter and leave a test together.
struct MpiBackend {
  static void run(const ChannelOptions& options, const std::function<void(Channel&)>& body) {
    Channel& channel = world()->channel();
    world()->set_options(patient());
    barrier(channel, everyone(channel), "before a test");
    world()->set_options(options);
    body(channel);
    world()->set_options(patient());
    barrier(channel, everyone(channel), "after a test");
  }
};

}  // namespace trireme::comm
