// What becomes of every layer of a stage.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"

#include <string>
#include <vector>

namespace trireme::report {

/// A head and a row per layer: its costs, what of it is held at the pause, how often it runs
/// forward, what that costs beyond once, what it moves to the outer tier; per micro-batch.
std::vector<std::vector<std::string>> layer_rows(const chain::Chain& chain,
                                                 const program::StageProgram& program);

}  // namespace trireme::report
