// pofo
#include "copy_plan.h"
#include "copy_solvers.h"
#include "interval_table.h"
#include "solvers.h"
#include "step_column.h"

#include <algorithm>

namespace trireme::solve {
namespace {
constexpr std::size_t kMostBreakpoints = 20'000;
constexpr int kMostSlots = 100;
}

Result solve_pofo(const Problem& problem, std::string_view argument) {
  if (!argument.empty() && argument != "free") refuse_argument("pofo", argument);
  const Freedom freedom = argument.empty() ? Freedom::kInputStays : Freedom::kInputMayLeave;
  Result alone = argument.empty() ? solve_rotor(problem, "") : solve_rotor_free(problem, "");
  if (!can_copy(problem)) return alone;
  BestProgram best(problem);
  if (auto* solution = std::get_if<Solution>(&alone)) best.offer(*solution);
  const auto costs = std::make_shared<const Costs>(*problem.chain, problem.first_layer, problem.last_layer, Bytes(1));
  const IntervalTable<StepColumn> table(costs, freedom, problem.budget.count(), kMostBreakpoints);
  if (table.complete()) {
    RedoTable redo(*problem.chain, table, [&](Part part, int s, int t) {
      std::vector<Slots> points;
      for (const auto& point : table.column(part, s, t).points()) points.push_back(point.m);
      return points;
    });
    search_copies({problem, &redo, getenv("ML")?(std::size_t)atoi(getenv("ML")):1000}, best);
  } else {
    const Bytes unit(std::max<std::int64_t>(1, problem.budget.count() / std::min(problem.slots == 0 ? kMostSlots : problem.slots, kMostSlots)));
    const int top = static_cast<int>(problem.budget.count() / unit.count()) * 9 / 8;
    const Tables tables(*problem.chain, problem.first_layer, problem.last_layer, {.freedom = freedom, .unit = unit, .top = top});
    RedoTable redo(*problem.chain, tables, [&](Part part, int s, int t) {
      std::vector<Slots> points;
      double before = std::numeric_limits<double>::infinity();
      for (Slots m = 0; m <= top; ++m) {
        const double now = tables.extra(part, s, t, m);
        if (now < before) points.push_back(m);
        before = now;
      }
      return points;
    });
    search_copies({problem, &redo, getenv("ML")?(std::size_t)atoi(getenv("ML")):1000}, best);
  }
  if (best.best()) return *best.best();
  return alone;
}

Result solve_offload(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("offload", argument);
  Result alone = solve_keep_all(problem, "");
  if (!can_copy(problem)) return alone;
  BestProgram best(problem);
  if (auto* solution = std::get_if<Solution>(&alone)) best.offer(*solution);
  search_copies({problem, nullptr, getenv("ML")?(std::size_t)atoi(getenv("ML")):1000}, best);
  if (best.best()) return *best.best();
  return alone;
}
}  // namespace trireme::solve
