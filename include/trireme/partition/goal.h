// What a plan is for: the fastest step, or one of least energy, by a deadline; and the trade-off
// between time and energy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/partition/planner.h"
#include "trireme/partition/problem.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::partition {

enum class Objective { kTime, kEnergy };

/// "time", "energy", in the order of the enumeration.
const std::vector<std::string>& objective_names();
std::optional<Objective> objective_named(std::string_view name);

/// Longest step allowed: a time, or a factor of the fastest step. By default any.
struct Deadline {
  Seconds time = kAnyTime;
  double factor = std::numeric_limits<double>::infinity();

  bool operator==(const Deadline&) const = default;
  bool is_any() const { return *this == Deadline{}; }
  /// In seconds, for this fastest step.
  Seconds of(Seconds fastest) const;
};
/// "120ms", "1.1x", "none". Nothing for any other text. No plan meets a factor below 1, of which
/// the answer says by how much.
std::optional<Deadline> deadline_of(std::string_view text);
/// What deadline_of() reads, in words.
inline constexpr std::string_view kDeadlines =
    "a time such as 120ms, a factor of the fastest step such as 1.1x, or none";

struct Goal {
  Objective objective = Objective::kTime;
  Deadline deadline = {};

  bool operator==(const Goal&) const = default;
};

/// Plans within the budgets, from the fastest to that of least energy: each next one takes longer
/// and less energy. Empty: nothing fits.
using TradeOff = std::vector<plan::Plan>;

/// The plan for a goal. Like plan(), but with a deadline that no plan meets it returns an
/// Infeasible with Reason::kDeadline, and for kEnergy the plan of least energy in
/// trade_off(question). Throws InputError also where neither the chain nor the platform says what
/// energy costs, but the goal is kEnergy.
Explained plan_for(const Question& question, const Goal& goal);

/// The fastest step that plan_for() has found beside the plan that it chose, or the plan's own.
Seconds fastest_step(const plan::Plan& chosen);

/// The plan with one clock for all passes of a rank, the fastest that it names for any of them, and
/// its predictions: clocks of GPUs take too long to change between passes. The plan at the usual
/// clocks where that would not fit the budgets. Throws InputError as clocks_of() does.
plan::Plan with_clock_per_rank(const Problem& problem, plan::Plan plan);

/// The plans on the trade-off between time and energy that were found: of the search for the
/// fastest step, of the same search with other prices of passes and copies, and with slower clocks
/// (chain::RankSpec::clocks) where ranks name some. `deadline` limits what is searched, not what
/// is returned; where no plan meets it, there are none. It takes about ten times as long as plan().
struct Traded {
  Explained fastest;
  TradeOff plans;
};
Traded trade_off(const Question& question, const Deadline& deadline);

}  // namespace trireme::partition
