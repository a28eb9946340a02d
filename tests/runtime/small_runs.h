// Small jobs, run in this process with ranks as threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/temporary_folder.h"

#include "trireme/config/job.h"
#include "trireme/io/node.h"
#include "trireme/model/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/program/generate.h"
#include "trireme/record/summary.h"
#include "trireme/runtime/trainer.h"
#include "trireme/schedule/named.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trireme::runtime {

using record::RunSummary;

/// A job of a few seconds: `steps` steps of `batch` examples in micro-batches of `micro_batch`.
inline config::JobSpec small_job(config::ModelSpec model) {
  config::JobSpec job(io::parse("{}", "small job"));
  job.model = std::move(model);
  job.train.steps = 3;
  job.train.batch = 8;
  job.train.micro_batch = 2;
  job.train.validate_every = 0;
  job.train.optimizer.learning_rate = 1e-2;
  job.train.schedule.warmup_steps = 1;
  job.pipeline.timeout = Seconds(30);
  job.report.log_every = 2;
  return job;
}

inline config::GptSpec small_gpt() {
  return {.blocks = 2,
          .width = 32,
          .heads = 2,
          .context = 16,
          .vocabulary = 40,
          .dropout = 0.1,
          .tied_head = true};
}

inline config::GptSpec with_adapters() {
  config::GptSpec spec = small_gpt();
  spec.lora_rank = 4;
  return spec;
}

inline config::MlpSpec small_mlp() {
  return {.inputs = 12, .widths = {16, 16, 16}, .classes = 5, .batch_norm = true, .dropout = 0.1};
}

/// A target of a job on documents: a third of it is masked; its micro-batch is its whole step.
inline model::Values masked(const at::Tensor& target) {
  const at::Tensor mask = target.remainder(3) == 0;
  const double counted = mask.logical_not().sum().item<double>();
  return {target.masked_fill(mask, model::kMasked), at::full({}, 1 / counted, at::kFloat)};
}

/// Documents of made-up lengths that fill rows: three in each, of which the last may be padding.
inline std::vector<std::int64_t> made_up_documents(std::int64_t key, std::int64_t rows,
                                                   std::int64_t tokens) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = 1 + (5 * key + 3 * row) % (tokens - 2);
    const std::int64_t second = 1 + (key + row) % (tokens - 1 - first);
    for (const std::int64_t each : {first, second, tokens - first - second})
      lengths.push_back(each);
  }
  return lengths;
}

/// Made-up data: a function of (step, micro-batch) alone.
inline DataSource random_data(const model::ChainModel& model, const config::JobSpec& job,
                              int validation = 2) {
  const auto examples = [&model, &job](std::int64_t key) {
    at::Generator from = model::Seeds(99, static_cast<int>(key)).of_layer();
    const std::int64_t B = job.train.micro_batch.value(), N = model.input_size;
    if (model.input != model::InputKind::kTokens) {
      std::vector<std::int64_t> sizes = model.example_sizes();
      sizes.insert(sizes.begin(), B);
      return std::pair(at::empty(sizes).normal_(0, 1, from),
                       at::empty({B}, at::kLong).random_(0, model.classes, from));
    }
    const at::Tensor tokens = at::empty({B, N + 1}, at::kLong).random_(0, model.classes, from);
    return std::pair(tokens.narrow(1, 0, N).contiguous(), tokens.narrow(1, 1, N).contiguous());
  };
  const auto target = [examples, is_masked = job.data.kind == "documents"](std::int64_t key) {
    const at::Tensor classes = examples(key).second;
    return is_masked ? masked(classes) : model::Values{classes};
  };
  const auto documents = [&model, &job](std::int64_t key) {
    if (!job.data.isolates_documents()) return std::vector<std::int64_t>();
    return made_up_documents(key, job.train.micro_batch.value(), model.input_size);
  };
  return {.input = [examples](std::int64_t step,
                              int m) { return model::Values{examples(step * 1000 + m).first}; },
          .target = [target](std::int64_t step, int m) { return target(step * 1000 + m); },
          .validation_input =
              [examples](int m) { return model::Values{examples(1'000'000 + m).first}; },
          .validation_target = [target](int m) { return target(1'000'000 + m); },
          .documents = [documents](std::int64_t step, int m) { return documents(step * 1000 + m); },
          .validation_documents = [documents](int m) { return documents(1'000'000 + m); },
          .validation_micro_batches = validation,
          .tokens = [&model,
                     &job](std::int64_t) { return job.train.batch * model.tokens_per_example(); }};
}

/// How a chain is run: cut and policy.
struct Split {
  std::vector<int> cut;  ///< last layers of the stages but the last
  std::string schedule = "1f1b";
  bool recompute = false;
  int replicas = 1;
  std::vector<int> ranks = {};          ///< by stage; empty: stage k on rank k
  std::vector<std::string> order = {};  ///< by rank; empty: the schedule's
  bool mixed = false;  ///< every second and third micro-batch runs the other of the two policies
  std::vector<int> in_flight = {};  ///< by stage; empty: as in 1F1B
  /// Optimizer state per stage in the offload tier, or in a file, in parts of this size.
  Bytes offloaded = {}, part = Bytes(4096);
  bool to_file = false;
  bool streams = false;  ///< untied weights are in the offload tier as well
  int at_once = 2;       ///< layers whose weights are on the device at a time
  int group = 1;         ///< micro-batches that pass the layers together
  bool shards = false;   ///< sharded optimizer
  /// Place of the updates of streamed layers, and parts of their state on the device at a time.
  program::UpdatePlace updates = program::UpdatePlace::kAtEnd;
  int parts_at_once = 3;
};

/// Those of layers first..last that have untied weights.
std::vector<int> layers_with_weights(const model::ChainModel& model, int first, int last);

inline plan::Plan plan_of(const model::ChainModel& model, const config::JobSpec& job,
                          const Split& split) {
  plan::Plan plan;
  plan.chain_name = model.name;
  plan.schedule = split.schedule;
  plan.micro_batches = config::micro_batches(job);
  plan.weights_at_once = split.at_once;
  plan.group = split.group;
  plan.updates = split.updates;
  plan.replicas = split.replicas;
  if (split.shards) plan.optimizer_shards = split.replicas;
  int first = 1;
  std::vector<int> ends = split.cut;
  ends.push_back(model.length());
  for (const int last : ends) {
    plan::StagePlan stage;
    stage.rank = split.ranks.empty() ? static_cast<int>(plan.stages.size())
                                     : split.ranks.at(plan.stages.size());
    stage.program =
        split.recompute ? program::recompute_all(first, last) : program::keep_all(first, last);
    if (split.mixed)
      stage.mix = {.others = {split.recompute ? program::keep_all(first, last)
                                              : program::recompute_all(first, last)},
                   .cycle = {0, 1, 1}};
    stage.offloaded_optimizer = split.offloaded;
    if (split.streams) stage.streamed = layers_with_weights(model, first, last);
    plan.stages.push_back(stage);
    first = last + 1;
  }
  if (!split.in_flight.empty())
    plan::set_order(plan, schedule::one_f_one_b_with(split.in_flight, plan.micro_batches));
  for (const std::string& passes : split.order)
    plan.order.push_back(schedule::parse_passes(passes, plan::kMaxMicroBatches));
  return plan;
}

/// The plan's program with the moves of its streamed weights, without copies of values.
program::Program program_of(const plan::Plan& plan, const model::ChainModel& model);

/// Trains on threads and then passes every rank's trainer to `look`.
FinishedRun run_recorded(config::JobSpec job, const Split& split,
                         const std::function<void(int rank, Trainer&)>& look = {},
                         const device::Place& place = device::cpu(),
                         const Checkpointing& checkpoints = {}, Observer* observer = nullptr);

/// The same without the recorded step.
RunSummary run_small(const config::JobSpec& job, const Split& split,
                     const std::function<void(int rank, Trainer&)>& look = {},
                     const device::Place& place = device::cpu(),
                     const Checkpointing& checkpoints = {}, Observer* observer = nullptr);

/// A trained job's weights, as a checkpoint and exported.
struct Trained {
  RunSummary summary;
  std::filesystem::path checkpoint, weights;
};

/// Trains a job, with one checkpoint at the end, and exports that.
Trained train_and_export(const config::JobSpec& job, const support::TemporaryFolder& folder,
                         const Split& split = {}, at::ScalarType type = at::kFloat);

}  // namespace trireme::runtime
