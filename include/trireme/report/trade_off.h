// Trade-off between time and energy: the plans of which none is both faster and leaner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/plan/plan.h"

#include <string>
#include <vector>

namespace trireme::report {

/// A header and one line per plan: time, energy, both relative to the fastest plan, which is the
/// first, and what tells the plans apart.
std::string trade_off_csv(const std::vector<plan::Plan>& plans);
/// Self-contained HTML: a plot of energy against time, and its table. `title` names chain and
/// platform.
std::string trade_off_page(const std::vector<plan::Plan>& plans, const std::string& title);

/// "joint, recomputes 1.2 s, forward 1200MHz on 3 stages": solver, recomputation, clocks.
std::string in_short(const plan::Plan& plan);

}  // namespace trireme::report
