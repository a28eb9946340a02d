// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/launch.h"

#include "trireme/comm/cause.h"
#include "trireme/comm/launch.h"
#include "trireme/comm/local.h"
#include "trireme/core/error.h"
#include "trireme/core/out_of_memory.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/ranks/mpi_launch.h"
#include "trireme/ranks/signals.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <iostream>
#include <new>
#include <optional>
#include <vector>

namespace trireme::ranks {
namespace {

constexpr int kFailed = 1;

/// The cores of `ranks` ranks that are threads of this process.
std::vector<comm::RankCores> cores_of(int ranks) {
  return {static_cast<std::size_t>(std::max(1, ranks)), comm::own_cores()};
}

void run_local(const config::JobSpec& job, const std::function<void(const RankContext&)>& body) {
  require_not_stopped();
  const int stages = job.pipeline.stages.value_or(1);
  const int ranks = stages * job.pipeline.replicas.value_or(1);
  const std::vector<comm::RankCores> cores = cores_of(ranks);
  const comm::RankThreads threads = comm::threads_of_ranks(job.threads, cores);
  comm::run_local(ranks, {.timeout = job.pipeline.timeout, .stop_requested = stop_requested},
                  [&](comm::Channel& control) {
                    const auto device = open_rank_device(job, control, stages);
                    body({.channel = device->channel(),
                          .device = *device,
                          .stages = stages,
                          .threads = threads.count,
                          .why_threads = threads.why,
                          .ranks_on_host = ranks,
                          .owns_process = ranks == 1,
                          .shares_cores = comm::is_crowded(cores, control.rank(), threads.count)});
                    device->close();
                  });
}

int launch_local(const config::JobSpec& job, const std::function<void(const RankContext&)>& body,
                 LocalErrors errors) {
  try {
    run_local(job, body);
    return 0;
  } catch (...) {
    if (errors == LocalErrors::kThrown) throw;
    return exit_code_of_current_exception(true, "");
  }
}

}  // namespace

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

comm::RankThreads threads_per_rank(const config::JobSpec& job, int ranks) {
  return comm::threads_of_ranks(job.threads, cores_of(ranks));
}

bool is_speaker() {
  const comm::Launch launch = comm::own_launch();
  return !launch.connected || launch.rank == 0;
}

int launch(const config::JobSpec& job, const std::function<void(const RankContext&)>& body,
           LocalErrors errors) {
  const std::string& transport = job.pipeline.transport;
  if (const std::string why = unconnected_ranks(); transport != "local" && !why.empty()) {
    if (comm::own_launch().rank == 0)
      std::cerr << "trireme: " << why
                << " (pipeline.transport=local: each runs the job on its own, in its own folder)\n";
    return 2;
  }
  const bool many = launched_ranks() > 1;
  if (transport == "mpi" || (transport != "local" && many)) {
    const auto in_world = [&](comm::Channel& control, int ranks_on_host) {
      const int stages = stages_for(job, control.size());
      const auto device = open_rank_device(job, control, stages);
      std::vector<comm::RankCores> cores;
      for (const std::string& text :
           comm::all_gather(control, comm::everyone(control), comm::to_text(comm::own_cores()),
                            "cores of the ranks"))
        cores.push_back(comm::read_cores(text));
      const comm::RankThreads threads = comm::threads_of_ranks(job.threads, cores);
      body({.channel = device->channel(),
            .device = *device,
            .stages = stages,
            .threads = threads.count,
            .why_threads = threads.why,
            .ranks_on_host = ranks_on_host,
            .owns_process = true,
            .shares_cores = comm::is_crowded(cores, control.rank(), threads.count)});
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
  return launch_local(job, body, errors);
}

int exit_code_of_current_exception(bool speak, const std::string& prefix) {
  const auto say = [&](const std::string& message) {
    if (speak)
      std::cerr << "trireme: " << visible(prefix) << message
                << std::endl;  // NOLINT: flushed before the job is ended
  };
  try {
    throw;
  } catch (const c10::Error& error) {
    say(shown_words(error));
    return kFailed;
  } catch (const std::bad_alloc&) {
    say(kOutOfMemory);
    return kFailed;
  } catch (const std::exception& error) {
    say(shown_words(error));
    return static_cast<int>(comm::ending_of(error));
  }
}

}  // namespace trireme::ranks
