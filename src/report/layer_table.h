// What becomes of every layer of a stage.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/simulate.h"

#include <string>
#include <vector>

namespace trireme::report {

/// A head and a row per layer: its costs, what of it is held at the pause, how often it runs
/// forward, what that costs beyond once, what it moves to the offload tier; per micro-batch. With a
/// measured step also the mean times that were measured.
std::vector<std::vector<std::string>> layer_rows(const chain::Chain& chain,
                                                 const plan::StagePlan& stage,
                                                 const simulate::Simulation* measured);

}  // namespace trireme::report
