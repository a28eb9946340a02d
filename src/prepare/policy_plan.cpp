// SPDX-License-Identifier: Apache-2.0
#include "policy_plan.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/balance.h"
#include "trireme/partition/problem.h"
#include "trireme/prepare/job_platform.h"
#include "trireme/program/generate.h"
#include "trireme/program/groups.h"
#include "trireme/runtime/boundary.h"
#include "trireme/schedule/named.h"
#include "trireme/simulate/place_copies.h"
#include "trireme/simulate/validate.h"

#include <algorithm>

namespace trireme::prepare {
namespace {

/// The plan's passes. Throws InputError where they do not fit together.
program::Program compiled(const plan::Plan& plan, const std::string& file);
/// A plan by hand may be anything: proves that it can run before anything does. Sizes are not
/// checked here, so the ranks have no limits.
void require_runnable(const plan::Plan& plan, const program::Program& program,
                      const model::ChainModel& model, const std::string& file);
std::vector<int> cut_of(const config::JobSpec& job, const model::ChainModel& model, int stages);
/// Throws InputError where the plan offloads something and the job has no offload tier.
void require_offload_tier(const plan::Plan& plan, const program::Program& program,
                          const config::JobSpec& job);
/// Throws InputError where the job contradicts the plan that it names.
void require_agreement(const plan::Plan& plan, const config::JobSpec& job);

}  // namespace

plan::Plan plan_from_file(const config::JobSpec& job, const model::ChainModel& model, int stages) {
  plan::Plan plan = plan::load_plan(job.plan.file);
  plan.replicas = job.pipeline.replicas.value();  // programs are the same for any number
  if (plan::ranks_of(plan) != stages) {
    throw InputError(concat(job.plan.file, ": is for ", plan::ranks_of(plan),
                            " ranks per pipeline, but the job runs with ", stages,
                            ": set pipeline.stages, or plan again for these"));
  }
  if (plan.stages.back().program.last_layer != model.length()) {
    throw InputError(concat(job.plan.file, ": covers ", plan.stages.back().program.last_layer,
                            " layers, but ", model.name, " has ", model.length(),
                            ": plan again for this model"));
  }
  if (plan.micro_batches != config::micro_batches(job)) {
    throw InputError(concat(job.plan.file, ": is for ", plan.micro_batches,
                            " micro-batches, but the job has ", config::micro_batches(job),
                            " per replica: set train.micro_batch or train.batch, or plan again"));
  }
  if (plan.optimizer_shards != 1 && plan.optimizer_shards != job.pipeline.replicas.value())
    throw InputError(concat(job.plan.file, ": shards the optimizer state over ",
                            plan.optimizer_shards, " replicas, but the job has ",
                            job.pipeline.replicas.value(), ": plan again for these"));
  require_agreement(plan, job);
  const program::Program program = compiled(plan, job.plan.file);
  require_offload_tier(plan, program, job);
  require_runnable(plan, program, model, job.plan.file);
  return plan;
}

int optimizer_shards(const config::JobSpec& job) {
  return job.memory.shard_optimizer ? job.pipeline.replicas.value() : 1;
}

plan::Plan make_policy_plan(const config::JobSpec& job, const model::ChainModel& model,
                            int stages) {
  const std::string solver = job.plan.solver == "auto" ? "keep_all" : job.plan.solver;
  ensure(solver == "keep_all" || solver == "recompute_all", "other solvers need costs");
  plan::Plan plan;
  plan.chain_name = model.name;
  plan.schedule = job.pipeline.schedule == "gpipe" ? "gpipe" : "1f1b";
  plan.solver = solver;
  plan.micro_batches = config::micro_batches(job);
  plan.group = job.pipeline.group.value_or(1);
  const int groups = program::groups_of(plan.micro_batches, plan.group);
  plan.replicas = job.pipeline.replicas.value();
  plan.optimizer_shards = optimizer_shards(job);
  std::vector<int> ends = cut_of(job, model, stages);
  ends.push_back(model.length());
  std::vector<int> in_flight;
  std::vector<std::optional<int>> deferred;
  int first = 1;
  for (const int last : ends) {
    plan::StagePlan stage;
    stage.rank = static_cast<int>(plan.stages.size());
    in_flight.push_back(schedule::usual_in_flight(plan.schedule, {stages, groups}, stage.rank));
    deferred.emplace_back();
    stage.program =
        solver == "keep_all" ? program::keep_all(first, last) : program::recompute_all(first, last);
    // Deferring weight gradients shortens the wait of other ranks for this stage, and it holds no
    // more than the first one; but a job that recomputes everything does so for its memory.
    if (job.pipeline.split_backward == "auto" && stage.rank > 0 && plan.group == 1 &&
        solver == "keep_all")
      deferred.back() = std::min(stage.rank, plan.micro_batches - 1);
    plan.stages.push_back(std::move(stage));
    first = last + 1;
  }
  plan::set_order(plan, schedule::one_f_one_b_with(in_flight, groups, deferred));
  return plan;
}

std::optional<std::vector<int>> cut_by_user(const config::JobSpec& job,
                                            const model::ChainModel& model, int stages) {
  if (!job.pipeline.cut) return std::nullopt;
  const std::vector<int>& cut = *job.pipeline.cut;
  if (static_cast<int>(cut.size()) != stages - 1) {
    job.fail("pipeline.cut", concat("has ", cut.size(), " entries, must have ", stages - 1,
                                    ": one fewer than there are stages"));
  }
  if (!cut.empty() && cut.back() >= model.length()) {
    job.fail("pipeline.cut",
             concat("cuts after layer ", cut.back(), ", but the last stage needs a layer of the ",
                    model.length(), " that ", model.name, " has"));
  }
  return cut;
}

void require_state(const plan::Plan& given, const chain::Chain& chain, const config::JobSpec& job) {
  try {
    plan::require_state(given, chain);
    if (given.updates == program::UpdatePlace::kInBackward && job.train.clip_norm > 0)
      throw InputError(concat("updates: found 'in_backward', but train.clip_norm is ",
                              job.train.clip_norm,
                              ", which needs all gradients first; use 'in_forward' or "
                              "'at_end', or set train.clip_norm to 0"));
  } catch (const InputError& error) {
    throw InputError(concat(job.plan.file, ": ", error.what()));
  }
}

void require_clocks(const plan::Plan& given, const chain::Platform& platform,
                    const config::JobSpec& job) {
  try {
    partition::clocks_of(platform, given);
  } catch (const InputError& error) {
    throw InputError(
        concat(job.plan.file, ": ", error.what(), "; in a job, energy.clocks names clocks"));
  }
}

namespace {

std::string joined(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(concat(number));
  return join(texts, ", ");
}

std::vector<int> cut_of(const config::JobSpec& job, const model::ChainModel& model, int stages) {
  if (auto cut = cut_by_user(job, model, stages)) return *std::move(cut);
  std::vector<double> work;
  for (const model::LayerRecipe& layer : model.layers) work.push_back(layer.work);
  return partition::balanced_cut(work, stages);
}

void require_agreement(const plan::Plan& plan, const config::JobSpec& job) {
  const auto require = [&](const char* key, const std::string& asked, const std::string& is) {
    if (asked != is)
      job.fail(key, concat("is ", asked, ", but ", job.plan.file, " has ", is,
                           ": leave one of them out"));
  };
  if (job.plan.solver != "auto") require("plan.solver", job.plan.solver, plan.solver);
  if (job.pipeline.schedule != "auto")
    require("pipeline.schedule", job.pipeline.schedule, plan.schedule);
  if (job.pipeline.group)
    require("pipeline.group", concat(*job.pipeline.group), concat(plan.group));
  if (job.memory.tapes != "auto")
    require("memory.tapes", job.memory.tapes, plan.lean_tapes ? "lean" : "full");
  std::vector<int> ends;
  bool has_offloaded_state = false, has_streams = false;
  for (const plan::StagePlan& stage : plan.stages) {
    ends.push_back(stage.program.last_layer);
    has_offloaded_state = has_offloaded_state || stage.offloaded_optimizer > Bytes(0);
    has_streams = has_streams || !stage.streamed.empty();
  }
  ends.pop_back();
  if (job.pipeline.cut && *job.pipeline.cut != ends)
    job.fail("pipeline.cut", concat("is [", joined(*job.pipeline.cut), "], but ", job.plan.file,
                                    " cuts after [", joined(ends), "]: leave one of them out"));
  if (job.memory.updates != "auto")
    require("memory.updates", job.memory.updates, std::string(program::name(plan.updates)));
  if (plan::has_split_backward(plan) && job.pipeline.split_backward == "never")
    job.fail("pipeline.split_backward",
             concat("is never, but ", job.plan.file, " has a split backward: must be auto"));
  if (has_offloaded_state && job.memory.optimizer == "device")
    job.fail("memory.optimizer", concat("is device, but ", job.plan.file,
                                        " has optimizer state in the offload tier: must be auto or "
                                        "offload"));
  if (has_streams && job.memory.weights == "device")
    job.fail("memory.weights", concat("is device, but ", job.plan.file,
                                      " has weights in the offload tier: must be auto or offload"));
}

void require_offload_tier(const plan::Plan& plan, const program::Program& program,
                          const config::JobSpec& job) {
  const tier::OffloadStoreOptions offload = offload_store_of(job);
  if (offload.host + offload.disk > Bytes(0)) return;
  const auto refuse = [&](const char* what) -> InputError {
    return InputError(concat(job.plan.file, ": has ", what,
                             " in the offload tier, but the job has none: give memory.host_budget "
                             "or memory.disk_budget"));
  };
  for (const plan::StagePlan& stage : plan.stages) {
    if (!stage.streamed.empty()) throw refuse("weights");
    if (stage.offloaded_optimizer > Bytes(0)) throw refuse("optimizer state");
  }
  if (std::any_of(program.ranks.begin(), program.ranks.end(), simulate::has_copies))
    throw refuse("activations");
}

program::Program compiled(const plan::Plan& plan, const std::string& file) {
  try {
    return plan::compile_passes(plan);
  } catch (const InputError& error) {
    throw InputError(concat(file, ": ", error.what()));
  }
}

void require_runnable(const plan::Plan& plan, const program::Program& program,
                      const model::ChainModel& model, const std::string& file) {
  chain::Chain chain;
  for (const model::LayerRecipe& layer : model.layers) chain.layers.push_back({.name = layer.name});
  chain::Platform platform = chain::uniform_platform(plan::ranks_of(plan), Bytes(0));
  for (chain::RankSpec& rank : platform.ranks) rank.out = rank.in = BytesPerSecond(1);
  simulate::Setting setting{.chain = &chain,
                            .platform = &platform,
                            .static_bytes = {},
                            .channel_capacity = runtime::kChannelCapacity};
  // require_state() checks whether these are trained.
  setting.streamed.resize(chain.layers.size() + 1);
  for (const std::vector<int>& layers : plan::updated_layers(plan))
    for (const int layer : layers)
      setting.streamed.at(static_cast<std::size_t>(layer)).is_trained = true;
  if (const auto fault = simulate::validate(program, setting)) {
    throw InputError(concat(file, ": cannot run: ", simulate::to_text(*fault)));
  }
}

}  // namespace
}  // namespace trireme::prepare
