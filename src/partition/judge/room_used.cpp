// SPDX-License-Identifier: Apache-2.0
#include "room_used.h"

#include "judge.h"
#include "memory/state_away.h"
#include "stage/stage_room.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// What each rank has left of its budget. Where values are on their way out, room is time: such a
/// rank has none. Of the bytes for streamed weights none are left, even if a step never needs all:
/// validation holds other layers together.
std::vector<Bytes> room_of(const Problem& problem, const plan::Plan& plan) {
  std::vector<Bytes> room(problem.platform.ranks.size());
  for (const plan::StagePlan& stage : plan.stages)
    room[static_cast<std::size_t>(stage.rank)] =
        stage.budget == Bytes(0) ? kUnlimited : stage.budget - stage.predicted.peak;
  const std::vector<std::vector<int>> streamed = plan::streamed_layers(plan);
  for (std::size_t rank = 0; rank < streamed.size(); ++rank)
    room[rank] -= plan::streamed_weights(plan, problem.chain, static_cast<int>(rank)) -
                  saved_bytes(problem.chain, streamed[rank], plan.weights_at_once);
  for (const plan::StagePlan& stage : plan.stages)
    if (stage.predicted.offloaded > Bytes(0)) room[static_cast<std::size_t>(stage.rank)] = Bytes(0);
  return room;
}

}  // namespace

Seconds copies_of(const Problem& problem, const plan::Plan& plan) {
  const std::vector<Bytes> away = plan::optimizer_away(plan);
  Seconds longest;
  for (std::size_t rank = 0; rank < away.size(); ++rank)
    if (away[rank] > Bytes(0))
      longest = std::max(longest, away[rank] / copy_rate(problem.platform.ranks[rank]));
  return longest;
}

plan::Plan with_room_used(const Problem& problem, plan::Plan plan) {
  std::vector<Bytes> room = room_of(problem, plan), back(room.size());
  for (plan::StagePlan& stage : plan.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    const Bytes some = std::clamp(room[rank], Bytes(0), stage.optimizer_away);
    stage.optimizer_away -= some;
    stage.static_bytes += some;
    room[rank] -= some;
    back[rank] += some;
  }
  for (plan::StagePlan& stage : plan.stages)
    stage.predicted.peak += back[static_cast<std::size_t>(stage.rank)];
  const simulate::Simulation simulation = simulated(problem, plan, simulate::Detail::kFigures);
  plan.step = simulation.step;
  plan.bubble = simulation.bubble;
  return plan;
}

}  // namespace trireme::partition
