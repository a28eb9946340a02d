// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include "does_not_fit.h"
#include "mpi_launch.h"
#include "signals.h"

#include "trireme/comm/local.h"
#include "trireme/core/error.h"
#include "trireme/core/out_of_memory.h"
#include "trireme/core/text.h"

#include <c10/util/Exception.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <new>
#include <optional>
#include <thread>

namespace trireme::app {
namespace {

/// Cores that this process may use.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, CPU_COUNT(&set));
}

int launch_local(const config::JobSpec& job, const std::function<void(const RankContext&)>& body) {
  try {
    const int stages = job.pipeline.stages.value_or(1);
    const int ranks = stages * job.pipeline.replicas.value_or(1);
    const int threads = threads_per_rank(job, ranks);
    comm::run_local(ranks, {.timeout = job.pipeline.timeout, .stop_requested = stop_requested},
                    [&](comm::Channel& control) {
                      const auto device = open_rank_device(job, control, stages);
                      body({.channel = device->channel(),
                            .device = *device,
                            .stages = stages,
                            .threads = threads,
                            .ranks_on_host = ranks,
                            .owns_process = ranks == 1,
                            .shares_cores = ranks * threads > usable_cores()});
                      device->close();
                    });
    return 0;
  } catch (...) {
    return exit_code_of_current_exception(true, "");
  }
}

}  // namespace

int int_from_environment(const char* name, int fallback) {
  const char* const text =
      std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread starts
  return text == nullptr ? fallback : std::atoi(text);
}

int stages_for(const config::JobSpec& job, int ranks) {
  const std::optional<int>& replicas = job.pipeline.replicas;
  const int stages = job.pipeline.stages.value_or(std::max(1, ranks / replicas.value_or(1)));
  const int unit = stages * replicas.value_or(1);
  if (replicas ? ranks != unit : ranks % unit != 0) {
    job.fail("pipeline",
             concat("asks for ", job.pipeline.stages ? concat(stages, " stages x ") : "",
                    replicas ? concat(*replicas) : "any number of", " replicas, but has ", ranks,
                    " ranks: start it with mpirun -n ", unit, replicas ? "" : " or a multiple"));
  }
  return stages;
}

int threads_per_rank(const config::JobSpec& job, int ranks_on_host) {
  if (job.threads) return *job.threads;
  const int cores = usable_cores();
  const bool bound = cores < static_cast<int>(std::thread::hardware_concurrency());
  return bound ? cores : std::max(1, cores / std::max(1, ranks_on_host));
}

bool is_speaker() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const int rank = int_from_environment(name, -1); rank >= 0) return rank == 0;
  return true;
}

int launch(const config::JobSpec& job, const std::function<void(const RankContext&)>& body) {
  const std::string& transport = job.pipeline.transport;
  if (const std::string why = strangers(); transport != "local" && !why.empty()) {
    if (is_speaker() && int_from_environment("SLURM_PROCID", 0) == 0)
      std::cerr << "trireme: " << why
                << " (pipeline.transport=local: each a run of its own, in a folder of its own)\n";
    return 2;
  }
  const bool many = launched_ranks() > 1;
  if (transport == "mpi" || (transport != "local" && many)) {
    const auto in_world = [&](comm::Channel& control, int ranks_on_host) {
      const int stages = stages_for(job, control.size());
      const auto device = open_rank_device(job, control, stages);
      const int threads = threads_per_rank(job, ranks_on_host);
      const auto cores = static_cast<int>(std::thread::hardware_concurrency());
      body({.channel = device->channel(),
            .device = *device,
            .stages = stages,
            .threads = threads,
            .ranks_on_host = ranks_on_host,
            .owns_process = true,
            .shares_cores = ranks_on_host * threads > cores});
      device->close();
    };
    return launch_mpi(job, in_world);
  }
  if (many) {
    if (is_speaker()) {
      std::cerr << "trireme: pipeline.transport is local, but mpirun started " << launched_ranks()
                << " processes: use transport mpi or auto, or start one process\n";
    }
    return 2;
  }
  return launch_local(job, body);
}

int exit_code_of_current_exception(bool speak, const std::string& prefix) {
  const auto say = [&](const std::string& message) {
    if (speak)
      std::cerr << "trireme: " << prefix << message
                << std::endl;  // NOLINT: flushed before the job is ended
  };
  try {
    throw;
  } catch (const InputError& error) {
    say(error.what());
    return 2;
  } catch (const DoesNotFit& error) {
    say(error.what());
    return 3;
  } catch (const Outgrown& error) {
    say(error.what());
    return 3;
  } catch (const Interrupted& error) {
    say(error.what());
    return 130;
  } catch (const c10::OutOfMemoryError& error) {
    say(error.what_without_backtrace());
    return 1;
  } catch (const c10::Error& error) {
    say(error.what_without_backtrace());
    return 1;
  } catch (const std::bad_alloc&) {
    say(kOutOfMemory);
    return 1;
  } catch (const std::exception& error) {
    say(error.what());
    return 1;
  }
}

}  // namespace trireme::app
