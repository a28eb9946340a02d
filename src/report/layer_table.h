// Table of a stage's layers: costs, and what the program does with each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/simulate.h"

#include <string>
#include <vector>

namespace trireme::report {

/// A header and a row per layer, per micro-batch: its costs, what it keeps until its backward,
/// number of forwards, recompute time, bytes offloaded. With a measured step also the measured mean
/// times.
std::vector<std::vector<std::string>> layer_rows(const chain::Chain& chain,
                                                 const plan::StagePlan& stage,
                                                 const simulate::Simulation* measured);

}  // namespace trireme::report
