// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

#include "offload.h"
#include "values/lookup.h"

#include "trireme/chain/cost_fields.h"
#include "trireme/schedule/named.h"

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

Bytes memory_for_programs(const Question& question, int rank) {
  const Bytes memory = question.platform.ranks[at(rank)].memory;
  if (memory == Bytes(0) || question.more.empty()) return memory;
  return std::max(memory + question.more[at(rank)], Bytes(1));
}

Question with_more_as_budget(Question question) {
  for (std::size_t rank = 0; rank < question.more.size(); ++rank)
    question.platform.ranks[rank].memory = memory_for_programs(question, static_cast<int>(rank));
  question.more.clear();
  return question;
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
  const Bytes offloaded = offloaded_optimizer(question, rank, runs);
  Bytes state;
  for (const auto& [first, last] : runs)
    state += chain::optimizer_bytes(question.chain, first, last);
  return {.held = static_bytes(question, runs) - offloaded - streamed.saved +
                  update_window(question, rank, runs),
          .offloaded_optimizer = offloaded,
          .outside = chain::state_room(question.chain, state, offloaded) + streamed.outside};
}

int in_flight(const Question& question, int stage) {
  if (question.schedule == "1f1b" && !question.in_flight.empty())
    return std::min(question.in_flight[at(stage)], question.micro_batches);
  return schedule::usual_in_flight(question.schedule, {question.stages, question.micro_batches},
                                   stage);
}

schedule::Order order_of(const Question& question, int stages) {
  std::vector<int> counts;
  for (int k = 0; k < stages; ++k) counts.push_back(in_flight(question, k));
  return schedule::one_f_one_b_with(counts, question.micro_batches);
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

StageShares::StageShares(const Question& question,
                         const std::vector<program::StageProgram>& programs,
                         const std::vector<int>& ranks)
    : question_(question), ranks_(question.platform.ranks.size()) {
  std::vector<LayerRuns> runs(ranks_.size());
  for (std::size_t k = 0; k < programs.size(); ++k)
    runs[at(ranks[k])].emplace_back(programs[k].first_layer, programs[k].last_layer);
  for (int rank = 0; rank < static_cast<int>(runs.size()); ++rank) {
    const LayerRuns& own = runs[at(rank)];
    if (own.empty()) continue;
    ranks_[at(rank)].offloaded = offloaded_optimizer(question, rank, own);
    ranks_[at(rank)].all = streamed_of(question, rank, own);
    ranks_[at(rank)].window = update_window(question, rank, own);
  }
}

// Bytes that stages of a rank share are counted with the first of them.
StageShares::Share StageShares::next(int rank, std::pair<int, int> layers) {
  Rank& now = ranks_[at(rank)];
  Share share;
  for (const int layer : now.all)
    if (layer >= layers.first && layer <= layers.second) share.streamed.push_back(layer);
  const auto held_and_state = [&]() -> std::pair<Bytes, Bytes> {
    if (now.runs.empty()) return {};
    return {static_bytes(question_, now.runs) - streamed_bytes(question_, now.so_far).saved,
            optimizer_state(question_, now.runs)};
  };
  const auto [held_before, state_before] = held_and_state();
  now.runs.push_back(layers);
  now.so_far.insert(now.so_far.end(), share.streamed.begin(), share.streamed.end());
  const auto [held, state] = held_and_state();
  share.fixed.offloaded_optimizer = std::min(now.offloaded, state - state_before);
  now.offloaded -= share.fixed.offloaded_optimizer;
  share.fixed.held =
      held - held_before - share.fixed.offloaded_optimizer + std::exchange(now.window, Bytes(0));
  return share;
}

}  // namespace trireme::partition
