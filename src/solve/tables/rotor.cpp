// The table solvers: rotor (Beaumont et al. 2019, RR-9302) and rotor_free. Both plan in slots, then
// spend in bytes what rounding left over, and never call infeasible what is feasible in bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include "rotor.h"

#include "interval_table.h"
#include "judge/judge.h"
#include "least_column.h"
#include "more_slots.h"
#include "step_column.h"

#include "trireme/core/cores.h"
#include "trireme/core/error.h"
#include "trireme/solve/tables.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

namespace trireme::solve {
namespace {

// Breakpoints up to which exact tables are worth it, and the slots that stand in for them beyond.
constexpr std::size_t kMostBreakpoints = 400'000;
constexpr int kManySlots = 2000;
// The same where tables in slots are read as well, for chains of at most kFewLayers layers.
constexpr std::size_t kFewBreakpoints = 50'000;
constexpr int kFewLayers = 24;
// Additions from which on a second thread is worth its start.
constexpr double kWorthThreads = 5e9;

Result solve_by_tables(const Problem& problem, Freedom freedom);
bool saves_by_retapes(const Problem& problem);
std::optional<Solution> exact(const Problem& problem, Freedom freedom,
                              std::size_t most = kMostBreakpoints);
std::optional<Solution> in_slots(const Problem& problem, Freedom freedom, int slots);
Slots worth_trying(const Problem& problem, Bytes unit, Slots available);
Solution spend_remainder(const Problem& problem, const FirstPass& pass, Slots available);
std::optional<Solution> fitting(const Problem& problem, const CostReader& reader, Slots m);
Result leanest(const Problem& problem, Freedom freedom);

}  // namespace

Result solve_rotor(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("rotor", argument);
  return solve_by_tables(problem, Freedom::kInputStays);
}

Result solve_rotor_free(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("rotor_free", argument);
  return solve_by_tables(problem, Freedom::kInputMayLeave);
}

namespace {

Result solve_by_tables(const Problem& problem, Freedom freedom) {
  require_table_size(problem.first_layer, problem.last_layer);
  std::optional<Solution> found;
  if (problem.budget.count() > 0) {
    if (problem.slots == 0) found = exact(problem, freedom);
    if (!found) found = in_slots(problem, freedom, problem.slots > 0 ? problem.slots : kManySlots);
  }
  if (found && problem.slots > 0 && saves_by_retapes(problem)) {
    // Slots count whole tapes.
    auto closer = exact(problem, freedom, kFewBreakpoints);
    if (closer && closer->time < found->time) found = std::move(closer);
  }
  if (found) return *std::move(found);
  Result result = leanest(problem, freedom);
  if (auto* solution = std::get_if<Solution>(&result)) {
    // It fits in bytes but not in these slots: the leanest program is slow, so look closer.
    found = exact(problem, freedom);
    if (!found) found = in_slots(problem, freedom, kManySlots);
    if (found && found->time < solution->time) return *std::move(found);
  }
  return result;
}

/// Whether the chain is short and retapes of some layers take fewer bytes than their tapes.
bool saves_by_retapes(const Problem& problem) {
  bool saves = false;
  for (int i = problem.first_layer; i <= problem.last_layer; ++i) {
    const chain::LayerCost& layer = problem.chain->layer(i);
    saves = saves || layer.again().tape < layer.tape;
  }
  return saves && problem.last_layer - problem.first_layer < kFewLayers;
}

std::optional<Solution> exact(const Problem& problem, Freedom freedom, std::size_t most) {
  const auto costs = std::make_shared<const Costs>(
      *problem.chain, problem.first_layer, problem.last_layer, Bytes(1), RetapeBytes::kTheirOwn);
  const Slots available = costs->available(problem.budget);
  const IntervalTable<StepColumn> table(costs, freedom, available, most);
  if (!table.complete()) return std::nullopt;
  return fitting(problem, table, available);
}

std::optional<Solution> in_slots(const Problem& problem, Freedom freedom, int slots) {
  const Bytes unit(std::max<std::int64_t>(1, problem.budget.count() / slots));
  const int layers = problem.last_layer - problem.first_layer + 1;
  const Bytes beside_input = problem.budget - problem.chain->output(problem.first_layer - 1);
  if (beside_input < Bytes(0)) return std::nullopt;
  const Slots available = beside_input.count() / unit.count();
  const int top = static_cast<int>(available + worth_trying(problem, unit, available));
  const double work = std::pow(layers, 3) / 6 * top;
  const int cores = usable_processors();
  const Tables tables(*problem.chain, problem.first_layer, problem.last_layer,
                      {.freedom = freedom,
                       .unit = unit,
                       .top = top,
                       .threads = work < kWorthThreads ? 1 : std::clamp(cores, 1, 8)});
  const FirstPass pass(tables, problem.last_layer);
  for (Slots m = available; m <= top; ++m) {
    if (std::isfinite(pass.extra(Recurrence::kFirst, problem.first_layer, problem.last_layer, m))) {
      if (m == available) return spend_remainder(problem, pass, available);
      return fitting(problem, pass, m);
    }
  }
  return std::nullopt;
}

// Slots beyond the budget's own: as many as rounding up takes if tapes are what is kept, a little
// more, and at most as many again.
Slots worth_trying(const Problem& problem, Bytes unit, Slots available) {
  if (unit == Bytes(1)) return 0;
  double exact = 0, rounded = 0;
  for (int i = problem.first_layer; i <= problem.last_layer; ++i) {
    const double slots = problem.chain->layer(i).tape / unit;
    exact += slots;
    rounded += std::ceil(slots);
  }
  const double waste = exact > 0 ? std::min(1.0, 1.05 * rounded / exact - 1) : 0;
  return static_cast<Slots>(waste * static_cast<double>(available));
}

Solution spend_remainder(const Problem& problem, const FirstPass& pass, Slots available) {
  const auto extra = [&](Slots m) {
    return pass.extra(Recurrence::kFirst, problem.first_layer, problem.last_layer, m);
  };
  std::optional<Solution> best = fitting(problem, pass, available);
  ensure(best.has_value(), "a program that fits in slots fits in bytes");
  double reached = extra(available);
  try_more_slots(available, pass.top(), [&](Slots m) {
    if (!(extra(m) < reached)) return true;
    std::optional<Solution> next = fitting(problem, pass, m);
    if (!next) return false;
    reached = extra(m);
    if (next->time < best->time) best = std::move(next);
    return true;
  });
  return *std::move(best);
}

std::optional<Solution> fitting(const Problem& problem, const CostReader& reader, Slots m) {
  const int first = problem.first_layer, last = problem.last_layer;
  if (!std::isfinite(reader.extra(Recurrence::kFirst, first, last, m))) return std::nullopt;
  Solution solution = judged(problem, rebuild_stage(reader, {first, last}, m));
  if (solution.peak > problem.budget) return std::nullopt;
  return solution;
}

// The least budget, exactly: the recurrence in bytes with "least m" for "least time".
Result leanest(const Problem& problem, Freedom freedom) {
  const int first = problem.first_layer, last = problem.last_layer;
  const auto costs =
      std::make_shared<const Costs>(*problem.chain, first, last, Bytes(1), RetapeBytes::kTheirOwn);
  const IntervalTable<LeastColumn> table(costs, freedom, 0);
  const Slots least = table.column(Recurrence::kFirst, first, last).needs;
  return within_budget(problem, rebuild_stage(table, {first, last}, least));
}

}  // namespace
}  // namespace trireme::solve
