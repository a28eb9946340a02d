// One page on one plan: what it costs, what every rank does and holds when, what becomes of every
// layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/simulate.h"

#include <string>

namespace trireme::report {

/// HTML that needs nothing else: styles and pictures (SVG) inside, no scripts. `timeline` is the
/// plan's own simulation with Detail::kTimeline.
std::string plan_page(const plan::Plan& plan, const chain::Chain& chain,
                      const simulate::Simulation& timeline);

}  // namespace trireme::report
