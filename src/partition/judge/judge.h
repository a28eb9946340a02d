// From stage programs to a plan with predictions: the simulator's word on what a choice costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"
#include "trireme/program/action.h"
#include "trireme/program/generate.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {

struct Simulated {
  plan::Plan plan;
  simulate::Simulation simulation;
};
/// A plan for these programs, stage k on rank k, with everything that replay and simulator predict.
/// `mixes`: by stage, or none. Budgets are not looked at.
Simulated judged(const Question& question, const std::string& solver,
                 std::vector<program::StageProgram> programs, std::vector<program::Mix> mixes = {});

/// Where stages run, how many micro-batches of each are in flight, and which of them run another
/// program than the stage's own.
struct Placement {
  std::vector<int> ranks, in_flight;
  program::Turns turns = {};
  std::vector<program::Mix> mixes = {};  ///< by stage, or none
};
/// The same for stages on any ranks; nothing if ranks that share several cuts would wait for one
/// another in a circle, because a stream holds few messages.
std::optional<Simulated> judged(const Question& question, const std::string& solver,
                                std::vector<program::StageProgram> programs, Placement placement);

/// Micro-batches enough to fill all stages, and one more: as many as any number of them needs.
program::Program validation_of(const plan::Plan& plan);

/// A plan that was made for other budgets, with those of the question and the simulator's
/// predictions for them; nothing where it needs more, in a step or in a validation.
std::optional<plan::Plan> on_budgets(const Problem& problem, plan::Plan plan);

/// What replay says of a micro-batch alone on its stage's rank, with all the room that its copies
/// want.
plan::StagePrediction predicted_alone(const Problem& problem, const plan::StagePlan& stage);

/// What a rank must have: the simulator's peak, and what the validator looks at, which may be more
/// where a copy in waits for room.
Bytes needed(const simulate::RankResult& rank);

/// Whether every rank has room for what it needs, on its device and in its offload tier.
bool is_within(const Problem& problem, const simulate::Simulation& simulation);

/// By how much each rank needs more than its budget, nothing where it has none.
std::vector<Bytes> excess(const Problem& problem, const simulate::Simulation& simulation);

/// What `make(less)` judges, asked again with so much less for every rank that is over its budget,
/// at most `rounds` times: what solvers count for a stage is not all that a rank needs at once.
/// `less`, by rank, is where it begins and what it has ended with. Nothing where `make` has
/// nothing, and where the offload tier alone is over: less on the device is no help there.
template <class Make>
std::optional<Simulated> tightened(const Problem& problem, int rounds, std::vector<Bytes>& less,
                                   Make&& make) {
  for (int round = 0; round < rounds; ++round) {
    std::optional<Simulated> found = make(std::as_const(less));
    if (!found || is_within(problem, found->simulation)) return found;
    const std::vector<Bytes> over = excess(problem, found->simulation);
    if (over == std::vector<Bytes>(over.size())) return std::nullopt;
    for (std::size_t rank = 0; rank < less.size(); ++rank) less[rank] += over[rank];
  }
  return std::nullopt;
}

/// The longest that a rank's copies of state take one way.
Seconds copies_of(const Problem& problem, const plan::Plan& plan);

/// The plan with as much of the optimizer's state back on the device as its ranks have room for.
plan::Plan with_room_used(const Problem& problem, plan::Plan plan);

/// Whether the plan runs nothing twice and moves no outputs or tapes.
bool keeps_everything(const plan::Plan& plan);

/// Throws LogicError with the validator's reason if the plan may not run or is over a budget.
void require_valid(const Problem& problem, const plan::Plan& plan);

}  // namespace trireme::partition
