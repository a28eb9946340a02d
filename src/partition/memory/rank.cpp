// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

#include "state_away.h"
#include "streamed_layers.h"
#include "update_window.h"

#include "trireme/chain/cost_fields.h"
#include "trireme/program/generate.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace trireme::partition {

Bytes static_bytes(const chain::Chain& chain, int first, int last) {
  Bytes sum;
  for (int i = first; i <= last; ++i) {
    const chain::LayerCost& layer = chain.layer(i);
    sum += layer.parameters + layer.gradients + layer.optimizer;
  }
  return sum;
}

Bytes static_bytes(const Problem& problem, const LayerRuns& runs) {
  Bytes sum;
  for (const auto& [first, last] : runs) sum += static_bytes(problem.chain, first, last);
  return problem.shared_bytes ? sum - problem.shared_bytes(runs).all() : sum;
}

void shard_optimizer(Problem& problem) {
  const int shards = problem.replicas;
  problem.optimizer_shards = shards;
  problem.chain = chain::sharded(std::move(problem.chain), shards);
  if (!problem.shared_bytes || shards == 1) return;
  problem.shared_bytes = [all = std::move(problem.shared_bytes), shards](const LayerRuns& runs) {
    chain::SharedBytes shared = all(runs);
    shared.optimizer = Bytes(shared.optimizer.count() / shards);
    return shared;
  };
}

FixedBytes fixed_bytes(const Question& question, int rank, const LayerRuns& runs) {
  if (runs.empty()) return {};
  const StreamedBytes streamed = streamed_bytes(question, streamed_of(question, rank, runs));
  const Bytes away = optimizer_away(question, rank, runs);
  Bytes state;
  for (const auto& [first, last] : runs)
    state += chain::optimizer_bytes(question.chain, first, last);
  return {.held = static_bytes(question, runs) - away - streamed.saved +
                  update_window(question, rank, runs),
          .optimizer_away = away,
          .outside = chain::state_room(question.chain, state, away) + streamed.outside};
}

int in_flight(const Question& question, int stage) {
  if (question.schedule == "1f1b" && !question.in_flight.empty())
    return std::min(question.in_flight[static_cast<std::size_t>(stage)], question.micro_batches);
  return program::usual_in_flight(question.schedule, question.stages, stage,
                                  question.micro_batches);
}

chain::Chain at_speed(const chain::Chain& chain, double speed) {
  chain::Chain timed = chain;
  const auto slow_down = [&](const chain::CostField& field, auto& value) {
    if constexpr (std::is_same_v<decltype(value), Seconds&>)
      if (field.grows == chain::Grows::kPass) value = value / speed;
  };
  for (chain::LayerCost& layer : timed.layers) chain::walk(slow_down, layer);
  return timed;
}

}  // namespace trireme::partition
