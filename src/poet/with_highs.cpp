// Programs solved by HiGHS, through its C interface.
// SPDX-License-Identifier: Apache-2.0
#include "milp.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <interfaces/highs_c_api.h>

#include <cstddef>
#include <memory>

namespace trireme::poet {
namespace {

struct Destroy {
  void operator()(void* highs) const { Highs_destroy(highs); }
};
using Instance = std::unique_ptr<void, Destroy>;

// How far from an integer a column may be, and a row from its bounds. Programs are scaled so that
// the least step of what counts, a byte or a joule, is far larger.
constexpr double kTolerance = 1e-7;

void check(HighsInt status, const char* what) {
  ensure(status != kHighsStatusError, concat("HiGHS: ", what, " failed"));
}
void set_options(void* highs, const MilpLimits& limits);
/// HiGHS looks at its own limit between linear programs alone; a large one takes minutes.
void stop_within_programs(void* highs, const TimeLimit& limit);
void pass(void* highs, const Milp& milp);
void begin_from(void* highs, const Terms& start);
MilpResult result_of(void* highs, const Milp& milp);
double figure(void* highs, const char* name);

}  // namespace

bool has_highs() {
  return true;
}

MilpResult solve_milp(const Milp& milp, const Terms& start, const MilpLimits& limits) {
  if (limits.time.is_over()) return {};
  const Instance highs(Highs_create());
  ensure(highs != nullptr, "HiGHS starts");
  set_options(highs.get(), limits);
  stop_within_programs(highs.get(), limits.time);
  pass(highs.get(), milp);
  if (!start.empty()) begin_from(highs.get(), start);
  check(Highs_run(highs.get()), "solving");
  return result_of(highs.get(), milp);
}

namespace {

void set_options(void* highs, const MilpLimits& limits) {
  const auto set = [highs](const char* option, double value) {
    check(Highs_setDoubleOptionValue(highs, option, value), option);
  };
  check(Highs_setBoolOptionValue(highs, "output_flag", 0), "output_flag");
  check(Highs_setIntOptionValue(highs, "threads", 1), "threads");
  set("time_limit", limits.time.left().count());
  set("mip_rel_gap", limits.gap);
  set("mip_abs_gap", 0);
  set("mip_feasibility_tolerance", kTolerance);
  set("primal_feasibility_tolerance", kTolerance);
}

void stop_if_over(int /*type*/, const char* /*message*/, const HighsCallbackDataOut* /*state*/,
                  HighsCallbackDataIn* answer, void* limit) {
  if (answer != nullptr)
    answer->user_interrupt = static_cast<const TimeLimit*>(limit)->is_over() ? 1 : 0;
}

void stop_within_programs(void* highs, const TimeLimit& limit) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): handed back to stop_if_over() alone
  check(Highs_setCallback(highs, stop_if_over, const_cast<TimeLimit*>(&limit)), "its callback");
  for (const HighsInt when :
       {kHighsCallbackSimplexInterrupt, kHighsCallbackIpmInterrupt, kHighsCallbackMipInterrupt})
    check(Highs_startCallback(highs, when), "its callback");
}

void pass(void* highs, const Milp& milp) {
  std::vector<double> cost, lower, upper;
  std::vector<HighsInt> kinds;
  for (const Milp::Column& column : milp.columns) {
    cost.push_back(column.cost);
    lower.push_back(column.lower);
    upper.push_back(column.upper);
    kinds.push_back(column.is_integer ? kHighsVarTypeInteger : kHighsVarTypeContinuous);
  }
  check(Highs_passMip(highs, static_cast<HighsInt>(milp.columns.size()), milp.rows(),
                      static_cast<HighsInt>(milp.index.size()), kHighsMatrixFormatRowwise,
                      kHighsObjSenseMinimize, milp.offset, cost.data(), lower.data(), upper.data(),
                      milp.row_lower.data(), milp.row_upper.data(), milp.row_start.data(),
                      milp.index.data(), milp.value.data(), kinds.data()),
        "passing the program");
}

void begin_from(void* highs, const Terms& start) {
  std::vector<HighsInt> columns;
  std::vector<double> values;
  for (const auto& [column, value] : start) {
    columns.push_back(column);
    values.push_back(value);
  }
  check(Highs_setSparseSolution(highs, static_cast<HighsInt>(columns.size()), columns.data(),
                                values.data()),
        "passing a start");
}

MilpResult result_of(void* highs, const Milp& milp) {
  const HighsInt status = Highs_getModelStatus(highs);
  MilpResult result;
  result.is_infeasible =
      status == kHighsModelStatusInfeasible || status == kHighsModelStatusUnboundedOrInfeasible;
  result.is_optimal = status == kHighsModelStatusOptimal;
  const bool is_stopped =
      status == kHighsModelStatusTimeLimit || status == kHighsModelStatusInterrupt;
  ensure(result.is_infeasible || result.is_optimal || is_stopped,
         concat("HiGHS ends with an answer or at its time limit, not with status ", status));
  result.bound = figure(highs, "mip_dual_bound");
  HighsInt found = kHighsSolutionStatusNone;
  check(Highs_getIntInfoValue(highs, "primal_solution_status", &found), "primal_solution_status");
  if (result.is_infeasible || found != kHighsSolutionStatusFeasible) return result;
  result.objective = figure(highs, "objective_function_value");
  result.columns.resize(milp.columns.size());
  check(Highs_getSolution(highs, result.columns.data(), nullptr, nullptr, nullptr), "its solution");
  return result;
}

double figure(void* highs, const char* name) {
  double value = 0;
  check(Highs_getDoubleInfoValue(highs, name, &value), name);
  return value;
}

}  // namespace
}  // namespace trireme::poet
