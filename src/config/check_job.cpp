// SPDX-License-Identifier: Apache-2.0
#include "check_job.h"

#include "built_in.h"

#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

namespace trireme::config {
namespace {

void check_name(const JobSpec& job);
void check_data(const JobSpec& job);
void check_batch(const JobSpec& job);
void check_shape(const JobSpec& job);
void check_cut(const JobSpec& job);
void check_schedule(const JobSpec& job);
void check_speeds(const JobSpec& job);
void check_memory(const JobSpec& job);
void check_transport(const JobSpec& job);
void check_goal(const JobSpec& job);
void check_clocks(const JobSpec& job);

}  // namespace

void check(const JobSpec& job) {
  check_name(job);
  check_model(job);
  check_data(job);
  check_batch(job);
  check_shape(job);
  check_cut(job);
  check_schedule(job);
  check_speeds(job);
  check_memory(job);
  check_transport(job);
  check_goal(job);
  check_clocks(job);
}

void check_graph(const JobSpec& job) {
  const auto refuse_if = [&](bool is_met, std::string_view key, const std::string& found) {
    if (!is_met) return;
    job.fail(key, concat("is ", found,
                         ", which a model that is a graph (resnet with model.grain: operator) does "
                         "not have: it runs on one rank, and every value is planned by itself; "
                         "leave this key out, or take a chain (model.grain: block)"));
  };
  const auto number = [](const std::optional<int>& value) {
    return value ? concat(*value) : std::string("auto");
  };
  const PipelineSpec& pipeline = job.pipeline;
  refuse_if(pipeline.stages.value_or(1) != 1, "pipeline.stages", number(pipeline.stages));
  refuse_if(pipeline.replicas != 1, "pipeline.replicas", number(pipeline.replicas));
  refuse_if(pipeline.group.value_or(1) != 1, "pipeline.group", number(pipeline.group));
  refuse_if(pipeline.cut.has_value() && !pipeline.cut->empty(), "pipeline.cut", "a list");
  const MemorySpec& memory = job.memory;
  refuse_if(memory.tapes == "lean", "memory.tapes", memory.tapes);
  refuse_if(memory.optimizer == "offload", "memory.optimizer", memory.optimizer);
  refuse_if(memory.weights == "offload", "memory.weights", memory.weights);
  refuse_if(memory.updates != "auto" && memory.updates != "at_end", "memory.updates",
            memory.updates);
}

void check_paths(const JobSpec& job) {
  const auto check = [&](std::string_view key, const std::string& path) {
    if (const auto why = io::unexpanded(path)) job.fail(key, *why);
  };
  check("report.directory", job.report.directory);
  check("plan.file", job.plan.file);
  check("memory.disk_path", job.memory.disk_path);
  for (const std::string& file : job.data.files) check("data.files", file);
  if (const auto* const script = std::get_if<TorchScriptSpec>(&job.model))
    for (const std::string& file : script->files) check("model.files", file);
}

namespace {

void check_name(const JobSpec& job) {
  // It names a folder below runs/.
  if (job.name.empty() || job.name.find('/') != std::string::npos)
    job.fail("name", concat("is \"", job.name, "\", must be a word without /"));
  if (!is_visible(job.name))
    job.fail("name", "holds a control character, must be a word without any");
}

/// What TorchScript layers, whose loss is not known, need for documents.
const char* hint_for_masks(const ModelSpec& model) {
  const auto* const script = std::get_if<TorchScriptSpec>(&model);
  return script != nullptr && script->takes == "tokens"
             ? " (or documents, with model.masked_targets: true, which says that the last layer's "
               "loss is the mean over targets that are not -100)"
             : "";
}

void check_data(const JobSpec& job) {
  const DataSpec& data = job.data;
  const std::vector<std::string> kinds = data_kinds_of(job.model);
  if (std::find(kinds.begin(), kinds.end(), data.kind) == kinds.end())
    job.fail("data.kind",
             concat("is ", data.kind, ", must be ", join(kinds, " or "), " for model.kind ",
                    kind_of(job.model), data.kind == "documents" ? hint_for_masks(job.model) : ""));
  if (data.kind != "synthetic" && data.kind != "own" && data.files.empty())
    job.fail("data.files",
             concat("is missing, must be a list of files for data.kind ", data.kind, ", e.g. [\"",
                    data.kind == "images" ? "photos/*/*.jpg" : "corpus/*.txt", "\"]"));
}

void check_batch(const JobSpec& job) {
  const TrainSpec& train = job.train;
  const std::int64_t unit =
      std::int64_t{train.micro_batch.value_or(1)} * job.pipeline.replicas.value_or(1);
  if (train.batch % unit != 0)
    job.fail("train.batch",
             concat("is ", train.batch, ", must be a multiple of micro_batch x replicas = ", unit));
  const std::int64_t most = train.batch / unit;
  if (job.pipeline.group && *job.pipeline.group > most)
    job.fail("pipeline.group", concat("is ", *job.pipeline.group, ", must be at most ", most,
                                      ", as many micro-batches as a replica has in a step"));
}

void check_shape(const JobSpec& job) {
  if (has_batch_norm(job.model)) require_micro_batch(job);
  if (has_open_shape(job) && !job.plan.file.empty())
    job.fail("plan.file", concat("is ", job.plan.file,
                                 ", which is made for one shape: pipeline.replicas and "
                                 "train.micro_batch must be numbers, not auto"));
}

void check_cut(const JobSpec& job) {
  const PipelineSpec& pipeline = job.pipeline;
  if (!pipeline.cut) return;
  const std::vector<int>& cut = *pipeline.cut;
  if (std::adjacent_find(cut.begin(), cut.end(), std::greater_equal<>()) != cut.end())
    job.fail("pipeline.cut", "is not in order, every entry must be greater than the one before");
  if (pipeline.stages && std::cmp_not_equal(cut.size(), *pipeline.stages - 1))
    job.fail("pipeline.cut",
             concat("has ", cut.size(), " entries, must have ", *pipeline.stages - 1,
                    ": one less than pipeline.stages = ", *pipeline.stages));
}

/// A schedule by name fixes what these keys would.
void check_schedule(const JobSpec& job) {
  const PipelineSpec& pipeline = job.pipeline;
  const std::string& schedule = pipeline.schedule;
  if (schedule == "auto" || schedule == "1f1b" || schedule == "gpipe") return;
  const auto refuse_if = [&](bool is_met, std::string_view key, std::string_view remedy) {
    if (is_met)
      job.fail(key, concat("is not combined with pipeline.schedule: ", schedule, "; ", remedy,
                           ", or the schedule 1f1b"));
  };
  refuse_if(pipeline.cut && !pipeline.cut->empty(), "pipeline.cut", "leave it out");
  refuse_if(pipeline.group.value_or(1) > 1, "pipeline.group", "use 1");
  refuse_if(job.memory.updates.starts_with("in_"), "memory.updates", "use at_end");
}

/// Stages x replicas, where the job says both.
std::optional<std::int64_t> ranks_of(const PipelineSpec& pipeline) {
  if (!pipeline.stages || !pipeline.replicas) return std::nullopt;
  return std::int64_t{*pipeline.stages} * *pipeline.replicas;
}

void check_speeds(const JobSpec& job) {
  const auto& speeds = job.pipeline.speeds;
  const std::optional<std::int64_t> ranks = ranks_of(job.pipeline);
  if (speeds && speeds->empty())
    job.fail("pipeline.speeds", "is an empty list, must be auto or have one entry per rank");
  if (speeds && ranks && std::cmp_not_equal(speeds->size(), *ranks))
    job.fail("pipeline.speeds", concat("has ", speeds->size(), " entries, must have ", *ranks,
                                       ": one per rank (stages x replicas)"));
}

void check_memory(const JobSpec& job) {
  const auto is_none = [](const MemorySize& size) {
    return size.share <= 0 && size.bytes == Bytes(0);
  };
  const std::vector<MemorySize>& budgets = job.memory.device_budget;
  for (const MemorySize& budget : budgets) {
    if (is_none(budget))
      job.fail("memory.device_budget",
               "is 0, must be more (auto: on a GPU what is free, on a CPU no budget)");
  }
  if (is_none(job.memory.host_budget) && is_none(job.memory.disk_budget)) {
    for (const auto& [key, place] : {std::pair{"memory.optimizer", &job.memory.optimizer},
                                     {"memory.weights", &job.memory.weights}})
      if (*place == "offload")
        job.fail(key,
                 "is offload, but there is no offload tier: give memory.host_budget or "
                 "memory.disk_budget");
  }
  const PipelineSpec& pipeline = job.pipeline;
  if (job.memory.updates == "in_backward") {
    if (job.train.clip_norm > 0)
      job.fail("memory.updates",
               concat("is in_backward, but train.clip_norm is ", job.train.clip_norm,
                      ", which needs the gradients of all layers at once: use in_forward, "
                      "or set clip_norm to 0"));
    if (pipeline.replicas.value_or(2) > 1)
      job.fail("memory.updates",
               "is in_backward, but replicas reduce their gradients after the last backward: use "
               "in_forward, or set pipeline.replicas to 1");
  }
  const std::optional<std::int64_t> ranks = ranks_of(pipeline);
  if (ranks && budgets.size() > 1 && std::cmp_not_equal(budgets.size(), *ranks))
    job.fail("memory.device_budget", concat("has ", budgets.size(), " entries, must have 1 or ",
                                            *ranks, ": one per rank (stages x replicas)"));
}

void check_transport(const JobSpec& job) {
  if (job.pipeline.transport == "nccl" && job.device != "cuda")
    job.fail("pipeline.transport", concat("is nccl, which moves memory of GPUs, but device is ",
                                          job.device, ": must be auto, local or mpi"));
}

// A plan that was made for time would silently stand for one of least energy.
void check_goal(const JobSpec& job) {
  if (job.plan.file.empty()) return;
  for (const auto& [key, value, usual] : {std::tuple{"plan.objective", &job.plan.objective, "time"},
                                          {"plan.deadline", &job.plan.deadline, "none"}})
    if (*value != usual)
      job.fail(key,
               concat("is ", *value, ", but the plan in plan.file is followed as it is: must be ",
                      usual, ", or leave plan.file out to have a plan made"));
}

void check_clocks(const JobSpec& job) {
  if (!job.energy.set_clocks) return;
  constexpr std::string_view kKey = "energy.set_clocks";
  if (job.device != "cuda")
    job.fail(kKey, concat("is true, but device is ", job.device,
                          ", whose clock is not set: must be false"));
  if (job.energy.clocks.empty())
    job.fail(kKey, "is true, but energy.clocks names none: must be false");
  for (const chain::Clock& clock : job.energy.clocks)
    if (!chain::megahertz_of(clock.name))
      job.fail(kKey,
               concat("is true, but the clock '", clock.name,
                      "' of energy.clocks is no frequency, such as 1590MHz: give it one as its "
                      "name, or set_clocks: false"));
}

}  // namespace
}  // namespace trireme::config
