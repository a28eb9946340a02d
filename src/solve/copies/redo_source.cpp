// The cost tables for ways to recompute layers.
//
// SPDX-License-Identifier: Apache-2.0
#include "redo.h"
#include "tables/interval_table.h"
#include "tables/step_column.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace trireme::solve {
namespace {

// Exact tables beyond this cost more search time than they gain.
constexpr std::size_t kMostBreakpoints = 20'000;
constexpr int kMostSlots = 100;
// Needs take most of the memory of a long chain's ways.
constexpr std::size_t kMostNeeds = 8;
// A table also bounds what more memory would save, up to this many times the budget.
constexpr int kTimesBudget = 8;

// Memory from which on nothing is recomputed.
std::int64_t enough(const Problem& problem) {
  return std::max(problem.budget.count(), keep_all_bytes(problem).front());
}

RedoTable::Source exact_source(const Problem& problem,
                               const std::shared_ptr<const IntervalTable<StepColumn>>& table) {
  const Slots most = problem.budget.count();
  return {.parts = table,
          .first_pass = table,
          .top = enough(problem),
          .breakpoints = [table, most](const SubChain& chain) {
            std::vector<Slots> points;
            for (const StepColumn::Point& point :
                 table->column(chain.recurrence, chain.s, chain.t).points()) {
              if (point.m <= most) points.push_back(point.m);
            }
            return points;
          }};
}

RedoTable::Source slot_source(const Problem& problem, Freedom freedom) {
  const int slots = problem.slots > 0 ? std::min(problem.slots, kMostSlots) : kMostSlots;
  const std::int64_t budget = std::max<std::int64_t>(1, problem.budget.count());
  const Bytes unit(std::max<std::int64_t>(1, budget / slots));
  const int layers = problem.last_layer - problem.first_layer + 1;
  // A way may fit in bytes where it does not in slots, since sizes were rounded up.
  const Slots available = budget / unit.count(), most = available + available / 8;
  const Slots top = std::clamp<Slots>(enough(problem) / unit.count() + layers + 1, most,
                                      std::max(most, kTimesBudget * available));
  const auto tables = std::make_shared<const Tables>(
      *problem.chain, problem.first_layer, problem.last_layer,
      Tables::Options{.freedom = freedom, .unit = unit, .top = static_cast<int>(top)});
  // The first pass reads the tables, so it keeps them.
  struct KeepingTables {
    KeepingTables(std::shared_ptr<const Tables> kept, int last)
        : tables(std::move(kept)), pass(*tables, last) {}
    std::shared_ptr<const Tables> tables;
    FirstPass pass;
  };
  const auto both = std::make_shared<const KeepingTables>(tables, problem.last_layer);
  return {.parts = tables,
          .first_pass = std::shared_ptr<const CostReader>(both, &both->pass),
          .top = top,
          .most_needs = kMostNeeds,
          .breakpoints = [tables, most](const SubChain& chain) {
            std::vector<Slots> points;
            double before = std::numeric_limits<double>::infinity();
            for (Slots m = 0; m <= most; ++m) {
              const double time = tables->extra(chain.recurrence, chain.s, chain.t, m);
              if (time < before) points.push_back(m);
              before = time;
            }
            return points;
          }};
}

}  // namespace

RedoTable make_redo_table(const Problem& problem, Freedom freedom) {
  const auto costs = std::make_shared<const Costs>(*problem.chain, problem.first_layer,
                                                   problem.last_layer, Bytes(1));
  const auto exact = std::make_shared<const IntervalTable<StepColumn>>(
      costs, freedom, enough(problem), kMostBreakpoints);
  if (exact->complete()) return {*problem.chain, exact_source(problem, exact)};
  return {*problem.chain, slot_source(problem, freedom)};
}

}  // namespace trireme::solve
