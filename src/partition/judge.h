// From stage programs to a plan with predictions: the simulator's word on what a choice costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/planner.h"
#include "trireme/program/action.h"

#include <string>
#include <vector>

namespace trireme::partition {

/// Micro-batches of stage k (0-based) whose forward has begun and whose backward has not ended.
int in_flight(const Question& question, int stage);

/// The chain with the times of a rank of that speed.
chain::Chain at_speed(const chain::Chain& chain, double speed);

struct Judged {
  plan::Plan plan;
  simulate::Simulation simulation;
};
/// A plan for these programs, stage k on rank k, with everything that replay and simulator predict.
/// Budgets are not looked at.
Judged judged(const Question& question, const std::string& solver,
              std::vector<program::StageProgram> programs);

/// Throws LogicError with the validator's reason if the plan may not run or is over a budget.
void require_valid(const Question& question, const plan::Plan& plan);

}  // namespace trireme::partition
