// SPDX-License-Identifier: Apache-2.0
#include "why.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>
#include <vector>

namespace trireme::app {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using partition::Reasons;

constexpr std::size_t kFastest = 10;

std::optional<Seconds> step_of(const partition::Answer& answer) {
  const auto* const plan = std::get_if<plan::Plan>(&answer);
  return plan == nullptr ? std::nullopt : std::optional(plan->step);
}

std::string step_text(const plan::Alternative& one) {
  return one.step ? report::time_text(*one.step) : "does not fit";
}

std::string longer_text(const plan::Alternative& one, const std::optional<Seconds>& step) {
  return one.step && step ? report::overhead_text(*one.step, *step) : "";
}

/// Distinguishes what the user fixed from what the planner chose.
std::string state_of(const Reasons::OfAxis& axis) {
  if (!axis.is_open) return axis.is_used ? "given" : "not searched";
  return axis.is_used ? "used" : "not used";
}

Rows axis_rows(const Reasons& reasons, const std::optional<Seconds>& step) {
  Rows rows{
      {"axis", "in this plan", "fastest without it", "vs this plan", "least gain", "because"}};
  for (const Reasons::OfAxis& axis : reasons.axes) {
    const auto& without = axis.without;
    rows.push_back({axis.name, state_of(axis),
                    without ? concat(without->policy, ": ", step_text(*without)) : "",
                    without ? longer_text(*without, step) : "",
                    axis.least_gain > 0
                        ? concat(to_text(std::round(axis.least_gain * 1e4) / 1e2), " %")
                        : "any",
                    axis.reason});
  }
  return rows;
}

Rows decision_rows(std::vector<plan::Alternative> judged, const std::optional<Seconds>& step,
                   bool verbose) {
  if (!verbose) {
    std::stable_sort(judged.begin(), judged.end(), [](const auto& a, const auto& b) {
      return a.step.value_or(partition::kAnyTime) < b.step.value_or(partition::kAnyTime);
    });
    judged.resize(std::min(judged.size(), kFastest));
  }
  Rows rows{{"decision", "step", "vs this plan"}};
  for (const plan::Alternative& one : judged)
    rows.push_back({one.policy, step_text(one), longer_text(one, step)});
  return rows;
}

}  // namespace

std::string why_text(const partition::Explained& explained, bool verbose) {
  const Reasons& reasons = explained.reasons;
  const std::optional<Seconds> step = step_of(explained.answer);
  const std::size_t judged = reasons.judged.size();
  return concat("\n", table(axis_rows(reasons, step)), "\n", count_of(judged, "decision"),
                " simulated; ", reasons.passed_over,
                " skipped, whose lower bound is not below the best step",
                verbose || judged <= kFastest ? "" : concat("; the fastest ", kFastest, ":"),
                "\n\n", table(decision_rows(reasons.judged, step, verbose)));
}

}  // namespace trireme::app
