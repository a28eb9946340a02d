// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"

#include "trireme/comm/local.h"
#include "trireme/core/text.h"
#include "trireme/model/kinds.h"
#include "trireme/runtime/copies.h"
#include "trireme/runtime/weights.h"
#include "trireme/tier/memory.h"

#include <algorithm>
#include <mutex>

namespace trireme::runtime {

std::vector<int> layers_with_weights(const model::ChainModel& model, int first, int last) {
  const auto is_own = [](const model::Parameter& parameter) { return parameter.tie.empty(); };
  const std::vector<char> of_layers = model::of_every_layer(model, [&](const model::Layer& layer) {
    return static_cast<char>(
        std::any_of(layer.parameters().begin(), layer.parameters().end(), is_own));
  });
  std::vector<int> layers;
  for (int i = first; i <= last; ++i)
    if (of_layers[static_cast<std::size_t>(i - 1)] != 0) layers.push_back(i);
  return layers;
}

program::Program program_of(const plan::Plan& plan, const model::ChainModel& model) {
  // Untied frozen weights are streamed, or where there are none untied trained ones.
  const std::vector<char> are_frozen = model::of_every_layer(model, [](const model::Layer& layer) {
    return static_cast<char>(std::any_of(
        layer.parameters().begin(), layer.parameters().end(),
        [](const model::Parameter& one) { return one.tie.empty() && !one.is_trained; }));
  });
  std::vector<program::WeightsKind> kinds(static_cast<std::size_t>(model.length()) + 1);
  for (const std::vector<int>& layers : plan::streamed_layers(plan))
    for (const int layer : layers)
      kinds[static_cast<std::size_t>(layer)] = are_frozen[static_cast<std::size_t>(layer - 1)] != 0
                                                   ? program::WeightsKind::kFrozen
                                                   : program::WeightsKind::kTrained;
  return program::with_weights(
      plan::compile_passes(plan),
      {.kinds = kinds, .at_once = plan.weights_at_once, .has_replicas = plan.replicas > 1});
}

FinishedRun run_recorded(config::JobSpec job, const Split& split,
                         const std::function<void(int rank, Trainer&)>& look,
                         const device::Place& place, const Checkpointing& checkpoints,
                         Observer* observer) {
  tier::install_cpu_allocator();
  job.pipeline.replicas = split.replicas;
  job.pipeline.schedule = split.schedule;
  const model::ChainModel model = model::make_model(job.model);
  plan::Plan plan = plan_of(model, job, split);
  plan.lean_tapes = job.memory.tapes == "lean";
  const DataSource data = random_data(model, job, std::min(2, job.train.validation_batches));
  const program::Program program = program_of(plan, model);
  const int ranks = split.replicas * plan::ranks_of(plan);
  const auto store = [&](Bytes room) {
    return tier::OffloadStoreOptions{.host = split.to_file ? Bytes(0) : room,
                                     .disk = split.to_file ? room : Bytes(0)};
  };
  FinishedRun of_rank_0;
  std::mutex mutex;
  comm::run_local(
      ranks, {.timeout = job.pipeline.timeout, .stop_requested = {}}, [&](comm::Channel& channel) {
        tier::MemoryAccount& memory = tier::MemoryAccount::open("rank");
        Trainer trainer({.job = job,
                         .model = model,
                         .plan = plan,
                         .program = program,
                         .data = data,
                         .channel = channel,
                         .memory = memory,
                         .place = place,
                         .optimizer_parts = {split.part, split.parts_at_once},
                         .make_optimizer_copies =
                             [&store](Bytes room) { return std::make_unique<Copies>(store(room)); },
                         .make_weight_copies =
                             [&store] { return std::make_unique<Copies>(store(Bytes(1 << 20))); },
                         .checkpoints = checkpoints,
                         .threads = 1,
                         .owns_process = ranks == 1,
                         .stop_requested = {},
                         .since_start = [] { return Seconds(0); }});
        const FinishedRun mine = trainer.run(channel.rank() == 0 ? observer : nullptr);
        const std::lock_guard lock(mutex);
        if (look) look(channel.rank(), trainer);
        if (channel.rank() == 0) of_rank_0 = mine;
      });
  return of_rank_0;
}

RunSummary run_small(const config::JobSpec& job, const Split& split,
                     const std::function<void(int rank, Trainer&)>& look,
                     const device::Place& place, const Checkpointing& checkpoints,
                     Observer* observer) {
  return run_recorded(job, split, look, place, checkpoints, observer).summary;
}

Trained train_and_export(const config::JobSpec& job, const support::TemporaryFolder& folder,
                         const Split& split, at::ScalarType type) {
  Checkpointing checkpoints;
  checkpoints.folder = folder / "checkpoints";
  checkpoints.every = 1000;
  checkpoints.job = "train: {}\n";
  Trained trained;
  trained.summary = run_small(job, split, {}, device::cpu(), checkpoints);
  trained.checkpoint = checkpoints.folder / concat("step-", job.train.steps);
  trained.weights = folder / "weights.safetensors";
  export_weights(trained.checkpoint, job.model, type, trained.weights);
  return trained;
}

}  // namespace trireme::runtime
