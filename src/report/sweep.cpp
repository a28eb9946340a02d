// Sweeps as CSV and JSON.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/sweep.h"

#include "csv.h"

#include "trireme/core/text.h"
#include "trireme/io/json.h"

namespace trireme::report {
namespace {

double overhead(Seconds step, Seconds ideal) {
  return ideal > Seconds(0) ? step / ideal - 1 : 0;
}

}  // namespace

std::string to_csv(const Sweep& sweep) {
  std::string text =
      "budget_bytes,solver,step_s,overhead,peak_bytes,kept_bytes,recompute_s,moved_bytes,"
      "least_budget_bytes\n";
  for (const SweepPoint& point : sweep.points) {
    text += concat(point.budget.count(), ",", csv_cell(point.solver), ",");
    if (const auto& cost = point.cost) {
      text += concat(to_text(cost->step.count()), ",", to_text(overhead(cost->step, sweep.ideal)),
                     ",", cost->peak.count(), ",", cost->kept.count(), ",",
                     to_text(cost->recompute.count()), ",", cost->moved.count(), ",\n");
    } else {
      text += concat(",,,,,,", point.least_budget.count(), "\n");
    }
  }
  return text;
}

std::string to_json(const Sweep& sweep) {
  io::Json points = io::Json::array();
  for (const SweepPoint& point : sweep.points) {
    io::Json entry{{"budget_bytes", point.budget.count()}, {"solver", point.solver}};
    if (const auto& cost = point.cost) {
      entry["step_s"] = cost->step.count();
      entry["recompute_s"] = cost->recompute.count();
      entry["peak_bytes"] = cost->peak.count();
      entry["kept_bytes"] = cost->kept.count();
      entry["moved_bytes"] = cost->moved.count();
    } else {
      entry["least_budget_bytes"] = point.least_budget.count();
    }
    points.push_back(std::move(entry));
  }
  return io::document({{"format", "trireme-sweep/1"},
                       {"chain", sweep.chain_name},
                       {"micro_batches", sweep.micro_batches},
                       {"ideal_s", sweep.ideal.count()},
                       {"solvers", sweep.solvers},
                       {"points", std::move(points)}});
}

}  // namespace trireme::report
