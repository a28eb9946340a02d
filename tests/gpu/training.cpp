// SPDX-License-Identifier: Apache-2.0
#include "training.h"

#include "state/stage.h"

#include "trireme/comm/local.h"
#include "trireme/runtime/warm_up.h"

#include <mutex>

namespace trireme::device {
namespace {

/// More than the weights and gradients of every job here.
constexpr Bytes kRoomForWeights(256 << 20);

/// All ranks on a device share its memory statistics: opened by the first rank after all have
/// warmed up.
struct SharedMemory {
  std::mutex mutex;
  std::shared_ptr<tier::DeviceMemory> memory;
};

}  // namespace

GpuOutcome train_on(CudaPart& gpu, const config::JobSpec& job, const model::ChainModel& model,
                    const GpuRun& run) {
  const runtime::DataSource data = runtime::random_data(model, job);
  const program::Program program =
      run.copies.ranks.empty() ? runtime::program_of(run.plan, model) : run.copies.program;
  const int ranks = static_cast<int>(run.plan.stages.size()) * job.pipeline.replicas.value();
  const auto copies_to = [&](Bytes room) {
    return gpu.make_copies(
        {.host = run.to_file ? Bytes(0) : room, .disk = run.to_file ? room : Bytes(0)});
  };
  std::vector<std::vector<at::Tensor>> of_ranks(static_cast<std::size_t>(ranks));
  GpuOutcome result;
  SharedMemory shared;
  comm::run_local(
      ranks, {.timeout = job.pipeline.timeout, .stop_requested = {}}, [&](comm::Channel& control) {
        gpu.use();
        const auto channel = gpu.make_staged_channel(control);
        runtime::warm_up(gpu);
        comm::barrier(control, comm::everyone(control), "warm-up");
        std::shared_ptr<tier::DeviceMemory> memory;
        {
          const std::lock_guard lock(shared.mutex);
          if (!shared.memory) shared.memory = gpu.open_memory("GPU");
          memory = shared.memory;
        }
        // Releases what the allocator cached from profiling, as when a run begins.
        if (run.budget > Bytes(0)) memory->set_budget(run.budget);
        memory->reset_peak();
        runtime::Trainer trainer(
            {.job = job,
             .model = model,
             .plan = run.plan,
             .program = program,
             .data = data,
             .channel = *channel,
             .memory = *memory,
             .place = gpu,
             .make_copies = [&] { return copies_to(run.copies.ranks.at(0).offload_peak); },
             .optimizer_parts = {run.part},
             .make_optimizer_copies = copies_to,
             .make_weight_copies = [&] { return copies_to(kRoomForWeights); },
             .reserves =
                 [&] { return record::DeviceReserves{.allocator = memory->peak_reserved()}; },
             .checkpoints = run.checkpoints,
             .owns_process = ranks == 1,
             .since_start = [] { return Seconds(0); }});
        for (const runtime::StageParameter& parameter : trainer.stage().parameters()) {
          if (!parameter.value.defined() || parameter.is_streamed) continue;
          of_ranks[static_cast<std::size_t>(control.rank())].push_back(
              parameter.value.detach().cpu());
        }
        const record::RunSummary summary = trainer.run(nullptr).summary;
        channel->close();
        if (control.rank() == 0) result.summary = summary;
      });
  for (const auto& of_rank : of_ranks)
    result.parameters.insert(result.parameters.end(), of_rank.begin(), of_rank.end());
  result.budget_left_by_allocator =
      run.budget - result.summary.ranks.at(0).reserves.value().allocator;
  return result;
}

}  // namespace trireme::device
