// SPDX-License-Identifier: Apache-2.0
#include "trireme/plan/plan.h"

#include "trireme/chain/layer_range.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/generate.h"
#include "trireme/program/groups.h"
#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <algorithm>
#include <utility>

namespace trireme::plan {
namespace {

program::Program in_groups(const Plan& plan, const program::Lowering& lowering, int micro_batches);

/// The order of the plan's schedule with its usual numbers in flight.
schedule::Order usual_order(const Plan& plan);

/// Number of stages by rank.
std::vector<int> numbers_of_stages(const Plan& plan);

/// Throws InputError where the plan's `updates` are not possible.
void require_updates(const Plan& plan, const chain::Chain& chain);

/// Throws InputError where backwards cannot be split.
void require_split(const Plan& plan);

}  // namespace

void require_same_chain(const Plan& plan, const chain::Chain& chain) {
  const std::string given = chain::digest(chain);
  if (plan.chain_digest != given)
    throw InputError(concat("the plan was made for chain '", plan.chain_name, "' (digest ",
                            plan.chain_digest, "), but this is chain '", chain.name, "' (digest ",
                            given, "): plan again for this chain, or give the plan's own"));
  const int layers = plan.stages.empty() ? 0 : plan.stages.back().program.last_layer;
  if (layers != chain.length())
    throw InputError(concat("the plan ends with layer ", layers, ", but chain '", chain.name,
                            "' has ", chain.length(),
                            " layers: its stages must cover all of them"));
}

void require_state(const Plan& plan, const chain::Chain& chain) {
  require_updates(plan, chain);
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const StagePlan& stage = plan.stages[k];
    const Bytes state =
        chain::optimizer_bytes(chain, stage.program.first_layer, stage.program.last_layer);
    if (stage.offloaded_optimizer > state)
      throw InputError(concat(
          "stage ", k, ", optimizer_away_bytes: found ", stage.offloaded_optimizer.count(),
          ", but the optimizer's state of ",
          layers_text(chain::LayerRange{stage.program.first_layer, stage.program.last_layer}),
          " is ", state.count(), " bytes; use that or less"));
    for (const int layer : stage.streamed)
      if (chain.layer(layer).may_leave().all() == Bytes(0))
        throw InputError(
            concat("stage ", k, ", streamed: found layer ", layer, " (", chain.layer(layer).name,
                   "), which has no weights that can be streamed: the chain has neither "
                   "frozen_bytes nor trained_bytes of it; leave it out"));
  }
}

const std::vector<std::string>& advice_kinds() {
  static const std::vector<std::string> kKinds{"memory_of_one_rank", "stages", "host_memory"};
  return kKinds;
}

std::string where_and_advice(const Infeasible& infeasible) {
  std::vector<std::string> changes;
  for (const Advice& one : infeasible.advice) changes.push_back(one.change);
  return changes.empty()
             ? infeasible.where
             : concat(infeasible.where, "; it would fit with ", join(changes, ", or with "));
}

program::Streaming streaming(const Plan& plan, const chain::Chain& chain) {
  return program::streaming_of(streamed_weights(plan, chain), plan.weights_at_once,
                               plan.replicas > 1);
}

program::Program compile(const Plan& plan, const chain::Chain& chain) {
  return program::with_weights(compile_passes(plan), streaming(plan, chain));
}

program::Program compile(const Plan& plan) {
  ensure(std::ranges::all_of(streamed_layers(plan), &std::vector<int>::empty),
         "a program that streams weights is made with their bytes");
  return compile_passes(plan);
}

program::Program compile_passes(const Plan& plan) {
  require_split(plan);
  program::Lowering lowering{.stages = {}, .order = order_of(plan), .placement = placement(plan)};
  for (const StagePlan& stage : plan.stages) {
    lowering.stages.push_back(stage.program);
    lowering.mixes.push_back(stage.mix);
  }
  return program::with_updates(in_groups(plan, lowering, plan.micro_batches), updated_layers(plan),
                               plan.updates, plan.weights_at_once);
}

program::Program compile_forwards(const Plan& plan, int micro_batches,
                                  const program::Streaming& streaming) {
  program::Lowering lowering{.stages = {},
                             .order = schedule::forwards_only(
                                 placement(plan), program::groups_of(micro_batches, plan.group)),
                             .placement = placement(plan),
                             .end = program::StepEnd::kNone};
  for (const StagePlan& stage : plan.stages)
    lowering.stages.push_back(
        program::evaluate(stage.program.first_layer, stage.program.last_layer));
  return program::with_weights(in_groups(plan, lowering, micro_batches), streaming);
}

int ranks_of(const Plan& plan) {
  int ranks = 0;
  for (const StagePlan& stage : plan.stages) ranks = std::max(ranks, stage.rank + 1);
  return ranks;
}

bool has_clocks(const StagePlan& stage) {
  return !stage.forward_clock.empty() || !stage.backward_clock.empty();
}

bool names_clocks(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), has_clocks);
}

Plan at_usual_clocks(Plan plan) {
  for (StagePlan& stage : plan.stages) stage.forward_clock = stage.backward_clock = "";
  return plan;
}

std::vector<Bytes> offloaded_optimizer(const Plan& plan) {
  std::vector<Bytes> offloaded(static_cast<std::size_t>(ranks_of(plan)));
  for (const StagePlan& stage : plan.stages)
    offloaded[static_cast<std::size_t>(stage.rank)] += stage.offloaded_optimizer;
  return offloaded;
}

schedule::Placement placement(const Plan& plan) {
  schedule::Placement ranks;
  for (const StagePlan& stage : plan.stages) ranks.push_back(stage.rank);
  return ranks;
}

std::vector<int> chunks_of_layers(const Plan& plan) {
  if (!schedule::shares_ranks(placement(plan))) return {};
  std::vector<int> chunks{0};
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const program::StageProgram& program = plan.stages[k].program;
    chunks.insert(chunks.end(),
                  static_cast<std::size_t>(program.last_layer - program.first_layer + 1),
                  static_cast<int>(k));
  }
  return chunks;
}

schedule::Order order_of(const Plan& plan) {
  return plan.order.empty() ? usual_order(plan) : plan.order;
}

void set_order(Plan& plan, schedule::Order order) {
  plan.order = schedule::has_usual_order(plan.schedule) && order == usual_order(plan)
                   ? schedule::Order()
                   : std::move(order);
}

std::vector<int> in_flight(const Plan& plan) {
  return schedule::in_flight(order_of(plan), placement(plan));
}

std::vector<std::optional<int>> deferred_passes(const Plan& plan) {
  return schedule::deferred_passes(order_of(plan), placement(plan));
}

bool has_split_backward(const Plan& plan) {
  return std::any_of(plan.order.begin(), plan.order.end(), [](const auto& passes) {
    return std::any_of(passes.begin(), passes.end(), [](const schedule::Pass& pass) {
      return pass.kind == schedule::Pass::Kind::kBackwardInput;
    });
  });
}

std::vector<std::vector<int>> streamed_layers(const Plan& plan) {
  std::vector<std::vector<int>> layers(static_cast<std::size_t>(ranks_of(plan)));
  for (const StagePlan& stage : plan.stages) {
    std::vector<int>& of_rank = layers[static_cast<std::size_t>(stage.rank)];
    of_rank.insert(of_rank.end(), stage.streamed.begin(), stage.streamed.end());
  }
  return layers;
}

std::vector<std::vector<int>> updated_layers(const Plan& plan) {
  std::vector<std::vector<int>> layers = streamed_layers(plan);
  const std::vector<int> stages = numbers_of_stages(plan);
  for (std::size_t rank = 0; rank < layers.size(); ++rank)
    layers[rank] = program::updated_layers(
        layers[rank], stages[rank] == 1 ? plan.updates : program::UpdatePlace::kAtEnd,
        plan.weights_at_once);
  return layers;
}

std::vector<Bytes> update_windows(const Plan& plan) {
  const std::vector<Bytes> offloaded = offloaded_optimizer(plan);
  const std::vector<std::vector<int>> layers = updated_layers(plan);
  std::vector<Bytes> windows(offloaded.size());
  for (std::size_t rank = 0; rank < offloaded.size(); ++rank)
    if (offloaded[rank] > Bytes(0) && !layers[rank].empty()) windows[rank] = plan.update_window;
  return windows;
}

std::vector<chain::OffloadWeights> streamed_weights(const Plan& plan, const chain::Chain& chain) {
  std::vector<chain::OffloadWeights> weights;
  for (const StagePlan& stage : plan.stages) {
    if (!stage.streamed.empty()) weights.resize(static_cast<std::size_t>(chain.length()) + 1);
    for (const int layer : stage.streamed)
      weights.at(static_cast<std::size_t>(layer)) = chain.layer(layer).may_leave();
  }
  return weights;
}

Bytes streamed_weights(const Plan& plan, const chain::Chain& chain, int rank) {
  Bytes sum;
  for (const StagePlan& stage : plan.stages) {
    if (stage.rank != rank) continue;
    for (const int layer : stage.streamed) sum += chain.layer(layer).may_leave().all();
  }
  return sum;
}

bool has_rank_for_each_stage(const Plan& plan) {
  for (std::size_t k = 0; k < plan.stages.size(); ++k)
    if (std::cmp_not_equal(plan.stages[k].rank, k)) return false;
  return true;
}

bool has_mixes(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const StagePlan& stage) { return !stage.mix.cycle.empty(); });
}

namespace {

void require_updates(const Plan& plan, const chain::Chain& chain) {
  if (plan.updates == program::UpdatePlace::kAtEnd) return;
  const auto refuse = [&](const std::string& why) {
    throw InputError(
        concat("updates: found '", program::name(plan.updates), "', but ", why, "; use 'at_end'"));
  };
  if (std::ranges::all_of(numbers_of_stages(plan), [](int number) { return number > 1; }))
    refuse("every rank has several chunks, whose layers are updated at the end of a step");
  if (plan.updates == program::UpdatePlace::kInBackward && plan.replicas > 1)
    refuse(concat(plan.replicas, " replicas reduce their gradients after the last backward"));
  const std::vector<chain::OffloadWeights> streamed = streamed_weights(plan, chain);
  for (std::size_t layer = 0; layer < streamed.size(); ++layer)
    if (streamed[layer].all() > Bytes(0) && !streamed[layer].is_trained)
      refuse(concat("streamed layer ", layer, " (", chain.layer(static_cast<int>(layer)).name,
                    ") is frozen"));
}

std::vector<int> numbers_of_stages(const Plan& plan) {
  std::vector<int> stages(static_cast<std::size_t>(ranks_of(plan)));
  for (const StagePlan& stage : plan.stages) ++stages[static_cast<std::size_t>(stage.rank)];
  return stages;
}

schedule::Order usual_order(const Plan& plan) {
  const schedule::PipelineShape shape{static_cast<int>(plan.stages.size()),
                                      program::groups_of(plan.micro_batches, plan.group)};
  return schedule::on_ranks(
      plan.schedule == "gpipe" ? schedule::gpipe(shape) : schedule::one_f_one_b(shape),
      placement(plan));
}

void require_split(const Plan& plan) {
  if (!has_split_backward(plan)) return;
  const std::vector<std::optional<int>> deferred = deferred_passes(plan);
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    if (!deferred[k]) continue;
    const auto refuse = [&](const std::string& why) {
      throw InputError(concat("order: stage ", k, " has backwards in two parts (I", k, ", W", k,
                              "), but ", why, ": whole ones (B", k, ") are possible"));
    };
    if (plan.group > 1) refuse("micro-batches run in groups");
    if (plan.updates != program::UpdatePlace::kAtEnd && !plan.stages[k].streamed.empty())
      refuse("layers are updated during its passes");
  }
}

program::Program in_groups(const Plan& plan, const program::Lowering& lowering, int micro_batches) {
  program::Program program = program::lower(lowering);
  return plan.group == 1 ? program : program::in_groups(program, plan.group, micro_batches);
}

}  // namespace
}  // namespace trireme::plan
