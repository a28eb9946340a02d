// SPDX-License-Identifier: Apache-2.0
#include "does_not_fit.h"
#include "launch.h"
#include "mpi_launch.h"
#include "signals.h"

#include "trireme/comm_mpi/world.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <cstdlib>

namespace trireme::app {
namespace {

/// A wrong input is wrong on every rank: rank 0 says it for all. Everything else is each rank's own
/// to say.
bool has_own_message(int rank) {
  try {
    throw;
  } catch (const InputError&) {
    return rank == 0;
  } catch (const DoesNotFit&) {
    return rank == 0;
  } catch (const Interrupted&) {
    return rank == 0;
  } catch (...) {
    return true;
  }
}

}  // namespace

int launched_ranks() {
  if (!comm::launched_by_mpi()) return 1;
  // srun's PMIx says it in Slurm's words alone.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* const text = std::getenv(name))
      return std::atoi(text);  // NOLINT(concurrency-mt-unsafe)
  }
  return 1;
}

int launch_mpi(const config::JobSpec& job, const std::function<void(comm::Channel&, int)>& body) {
  comm::MpiWorld world =
      comm::MpiWorld::start({.timeout = job.pipeline.timeout, .stop_requested = stop_requested});
  comm::Channel& channel = world.channel();
  try {
    body(channel, world.ranks_on_this_host());
    world.close();
    return 0;
  } catch (...) {
    const bool speaks = has_own_message(channel.rank());
    const int code = exit_code_of_current_exception(speaks, "");
    try {
      throw;
    } catch (const std::exception& error) {
      channel.abandon(words_of(error));
    }
    world.kill_job(code);
  }
}

}  // namespace trireme::app
