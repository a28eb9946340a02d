// Full or lean tapes: which are better for what a plan is for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/partition/goal.h"
#include "trireme/prepare/prepared.h"

#include <variant>

namespace trireme::prepare {

/// Whether nothing is recomputed or copied, so that smaller tapes gain nothing.
bool keeps_everything(const std::variant<Prepared, Misfit>& result);

bool has_smaller_tapes(const chain::Chain& lean, const chain::Chain& full);

/// The plan that serves the goal better; where neither fits, the misfit that lacks less. A deadline
/// that is a factor is of the fastest step with either tapes.
std::variant<Prepared, Misfit> better_of(std::variant<Prepared, Misfit> full,
                                         std::variant<Prepared, Misfit> lean,
                                         const partition::Goal& goal);

}  // namespace trireme::prepare
