// HTML page about one plan: its cost, the timeline and memory of every rank, the actions on every
// layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/simulate.h"

#include <string>

namespace trireme::report {

/// Self-contained HTML: styles and pictures (SVG) inside, no scripts. `timeline` is the plan's own
/// simulation with Detail::kTimeline.
std::string plan_page(const plan::Plan& plan, const chain::Chain& chain,
                      const simulate::Simulation& timeline);

}  // namespace trireme::report
