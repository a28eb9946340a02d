// The judge: simulates stage programs as a plan and fills in its predictions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"
#include "trireme/program/action.h"
#include "trireme/program/generate.h"
#include "trireme/schedule/order.h"

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
/// A plan for these programs, stage k on rank k, with all predictions of replay and simulator.
/// `mixes`: by stage, or none. Budgets are not checked.
Simulated judged(const Question& question, const std::string& solver,
                 std::vector<program::StageProgram> programs, std::vector<program::Mix> mixes = {});

/// Ranks of the stages, order of passes, and program mixes.
struct PlacedStages {
  schedule::Placement ranks;
  schedule::Order order;
  std::string schedule = {};             ///< plan::Plan::schedule; empty: the question's
  std::vector<program::Mix> mixes = {};  ///< by stage, or none
};
/// The same for stages on any ranks; empty if ranks that share several cuts would deadlock because
/// a stream holds few messages.
std::optional<Simulated> judged(const Question& question, const std::string& solver,
                                std::vector<program::StageProgram> programs, PlacedStages stages);

/// The program of a validation with enough micro-batches to fill all stages and one more: memory
/// does not grow with further ones.
program::Program validation_of(const Problem& problem, const plan::Plan& plan);

/// The plan with the problem's budgets and the simulator's predictions for them; empty where it
/// does not fit, in a step or in a validation.
std::optional<plan::Plan> on_budgets(const Problem& problem, plan::Plan plan);

/// The plan with all predictions for a problem with other costs, or for the plan's clocks; empty
/// where it does not fit.
std::optional<plan::Plan> predicted_again(const Problem& problem, plan::Plan plan);

/// Replay's prediction for a micro-batch alone on its stage's rank, with unlimited room for copies.
plan::StagePrediction predicted_alone(const Problem& problem, const plan::StagePlan& stage);

/// Memory that a rank needs: the larger of the simulator's peak and the validator's, which may be
/// more where a copy in waits for room.
Bytes needed(const simulate::RankResult& rank);

/// Whether every rank fits its device budget and its offload tier.
bool is_within(const Problem& problem, const simulate::Simulation& simulation);

/// Excess of each rank over its budget; 0 where it has none.
std::vector<Bytes> excess(const Problem& problem, const simulate::Simulation& simulation);

/// Repeats `make(less)`, at most `rounds` times, with the excess of every rank over its budget
/// added to `less`, since solvers do not count all that a rank needs at once. `less`, by rank, is
/// updated in place. Empty where `make` is, and where only the offload tier is over, since less on
/// the device does not help there.
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

/// Longest one-way copy time of optimizer state over the ranks.
Seconds copies_of(const Problem& problem, const plan::Plan& plan);

/// The plan with as much optimizer state back on the device as its ranks have room for.
plan::Plan with_room_used(const Problem& problem, plan::Plan plan);

/// Whether the plan neither recomputes nor offloads activations.
bool keeps_everything(const plan::Plan& plan);

/// Throws LogicError with the validator's reason if the plan may not run or is over a budget.
void require_valid(const Problem& problem, const plan::Plan& plan);

}  // namespace trireme::partition
