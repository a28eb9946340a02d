// Plans and simulations as text for terminals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/plan/plan.h"
#include "trireme/program/action.h"
#include "trireme/simulate/simulate.h"

#include <string>
#include <string_view>
#include <vector>

namespace trireme::report {

/// "14 B", "1572864 B (1.50 MiB)": exact bytes, with a rounded size.
std::string exact_text(Bytes size);

/// "the smallest budget that works is 14 B", "... is at most 14 B" where less may do.
std::string least_budget_text(Bytes least, bool is_exact);

/// "1.25 ms", "0 s".
std::string time_text(Seconds time);

/// "12.5 %".
std::string percent_text(double share);
/// "+11.5 %": `time` relative to `ideal`.
std::string overhead_text(Seconds time, Seconds ideal);
/// "+11.5 % over the ideal 26.0 s (no waits, no recomputation)".
std::string over_ideal_text(Seconds step, Seconds ideal);

/// "forward_keep 1, forward_tape 2". Runs of four or more like actions on neighbouring layers are
/// folded: "forward_tape 3..18", "backward 18..3".
std::string actions_text(const std::vector<program::Action>& actions);
/// "2 of 3 micro-batches in flight run instead:", for program `number` of a mix.
std::string mix_note(const program::Mix& mix, int number);

/// Lines of at most `width` characters, broken after commas; all but the first begin with `indent`
/// spaces.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

/// "16 micro-batches per step, in groups of 8, one stage".
std::string passes_text(const plan::Plan& plan);

/// Step time if ranks shared all work evenly, without waits or recomputation.
Seconds ideal_step(const simulate::Simulation& simulation);

/// "1200MHz forward, the usual one backward": the clocks of a stage's passes.
std::string clocks_text(const plan::StagePlan& stage);

/// "energy    12.0 J per step: 9.00 J compute (1.00 J recompute), 2.00 J copies, 1.00 J idle", a
/// line, of each replica where there are several; empty where neither chain nor platform says what
/// energy costs.
std::string energy_text(const plan::Plan& plan, const simulate::Simulation& simulation);

/// A table of the plan's alternatives: step time, difference from the plan's, least budget.
std::vector<std::vector<std::string>> alternative_rows(const plan::Plan& plan);

/// The chosen plan and its cost, stage by stage with its program.
std::string plan_text(const plan::Plan& plan, const chain::Chain& chain,
                      const simulate::Simulation& simulation);

/// Step time and bubble, a table of ranks, and the contents of every rank at its peak.
std::string simulation_text(const plan::Plan& plan, const simulate::Simulation& simulation);

/// The same as `trireme-simulation/1`.
std::string to_json(const plan::Plan& plan, const simulate::Simulation& simulation);

}  // namespace trireme::report
