// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/mpi_launch.h"

#include "trireme/comm/cause.h"
#include "trireme/comm/heartbeat.h"
#include "trireme/comm/launch.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/ranks/launch.h"
#include "trireme/ranks/mpi_library.h"
#include "trireme/ranks/signals.h"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>

namespace trireme::ranks {
namespace {

/// Collective, called first. Throws on every rank the error with which one of them could not start.
void meet(comm::Channel& channel, const std::exception_ptr& failure) {
  const auto fail = [&] {
    require_not_stopped();
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(words_of(error));
    }
  };
  comm::run_with_heartbeat(channel, fail, "begin of the job");
}

int run_in(comm::World& world, const std::function<void(comm::Channel&, int)>& body) {
  comm::Channel& channel = world.channel();
  try {
    body(channel, world.ranks_on_this_host());
    world.close();
    return 0;
  } catch (const std::exception& error) {
    world.end_job(error, [&](const comm::Cause& cause) {
      if (cause.rank == channel.rank()) {
        exit_code_of_current_exception(true, "");
      } else {
        std::cerr << "trireme: " << comm::RankFailed(cause).what() << std::endl;  // NOLINT: flushed
      }
    });
    std::abort();  // GCC does not know of a virtual function that it never returns
  }
}

}  // namespace

int launched_ranks() {
  const comm::Launch launch = comm::own_launch();
  return launch.connected ? launch.ranks : 1;
}

std::string unconnected_ranks() {
  const comm::Launch launch = comm::own_launch();
  if (launch.connected || launch.ranks == 1) return "";
  return concat(
      "srun started ", launch.ranks,
      " processes that are not connected to one another: start them with srun --mpi=pmix, or "
      "with mpirun in the allocation");
}

int launch_mpi(const config::JobSpec& job, const std::function<void(comm::Channel&, int)>& body) {
  const bool speaks = comm::own_launch().rank_on_host == 0;
  std::unique_ptr<comm::World> world;
  try {
    world = start_world({.timeout = job.pipeline.timeout, .stop_requested = stop_requested});
  } catch (...) {
    // A machine may lack what others have: the first rank on each speaks for it.
    return exit_code_of_current_exception(speaks, "");
  }
  return run_in(*world, [&](comm::Channel& channel, int ranks_on_host) {
    meet(channel, nullptr);
    body(channel, ranks_on_host);
  });
}

int fail_to_launch() {
  if (launched_ranks() == 1) return exit_code_of_current_exception(true, "");
  const std::exception_ptr failure = std::current_exception();
  std::unique_ptr<comm::World> world;
  try {
    world = start_world({.stop_requested = stop_requested});
  } catch (const std::exception&) {
    // The other ranks cannot start either, and each ends alone.
  }
  if (!world) return exit_code_of_current_exception(is_speaker(), "");
  return run_in(*world,
                [&](comm::Channel& channel, int /*ranks_on_host*/) { meet(channel, failure); });
}

}  // namespace trireme::ranks
