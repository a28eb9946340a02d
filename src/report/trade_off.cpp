// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/trade_off.h"

#include "axis.h"
#include "chart.h"
#include "csv.h"
#include "markup.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace trireme::report {
namespace {

constexpr double kWidth = 1080, kHeight = 460;
constexpr double kLeft = 90, kRight = 1050, kTop = 18, kBottom = 404;
/// Empty part of an axis at either end, as a share of its range.
constexpr double kMargin = 0.05;

struct Frame {
  Scale x, y;
};

Scale scale_of(double least, double most, double begin, double end) {
  const double margin = std::max((most - least) * kMargin, most * 1e-6);
  return {.from = least - margin, .to = most + margin, .begin = begin, .end = end};
}

/// By ascending step and descending energy.
Frame frame_of(const std::vector<plan::Plan>& plans) {
  return {.x = scale_of(plans.front().step.count(), plans.back().step.count(), kLeft, kRight),
          .y = scale_of(plans.back().energy.count(), plans.front().energy.count(), kBottom, kTop)};
}

std::string grid_of(const Frame& frame) {
  const Ticks x = time_ticks(frame.x, 9), y = number_ticks(frame.y, 8);
  return chart_grid({frame.x, x, concat("step time (", x.unit, ")")},
                    {frame.y, y, concat("energy of a step (", y.unit, "J)")}) +
         "\n";
}

std::string tooltip(const plan::Plan& plan) {
  return concat(time_text(plan.step), ", ", to_text(plan.energy), "\n", in_short(plan));
}

/// A staircase: between two plans, the faster one's energy is what is needed.
std::string curve_of(const std::vector<plan::Plan>& plans, const Frame& frame) {
  std::string steps, marks;
  for (const plan::Plan& plan : plans) {
    const double x = frame.x.at(plan.step.count()), y = frame.y.at(plan.energy.count());
    steps += steps.empty() ? concat("M", pixels(x), " ", pixels(y))
                           : concat("H", pixels(x), "V", pixels(y));
    marks +=
        element("circle", {{"cx", pixels(x)}, {"cy", pixels(y)}, {"r", "3.8"}, {"class", "dot"}},
                title(tooltip(plan)));
  }
  return element("g", {{"class", "s0"}}, path(steps, "curve") + marks);
}

/// "-12 %", "+0.5 %".
std::string change_text(double ratio) {
  return concat(ratio < 1 ? "-" : "+", percent_text(std::abs(ratio - 1)));
}

std::string table_of(const std::vector<plan::Plan>& plans) {
  std::vector<std::vector<std::string>> rows{{"step", "energy", "step", "energy", "plan"}};
  const plan::Plan& fastest = plans.front();
  for (const plan::Plan& plan : plans)
    rows.push_back({time_text(plan.step), to_text(plan.energy),
                    change_text(plan.step / fastest.step),
                    change_text(plan.energy / fastest.energy), in_short(plan)});
  return html_table(rows);
}

/// "forward 1200MHz on 3 stages", for each clock and kind of pass.
std::vector<std::string> clocks_of(const plan::Plan& plan) {
  std::map<std::string, int> stages;
  for (const plan::StagePlan& stage : plan.stages) {
    if (!stage.forward_clock.empty()) ++stages["forward " + stage.forward_clock];
    if (!stage.backward_clock.empty()) ++stages["backward " + stage.backward_clock];
  }
  std::vector<std::string> texts;
  for (const auto& [clock, count] : stages)
    texts.push_back(plan.stages.size() == 1 ? clock
                                            : concat(clock, " on ", count_of(count, "stage")));
  return texts;
}

}  // namespace

std::string in_short(const plan::Plan& plan) {
  std::vector<std::string> parts{plan.solver};
  if (plan.recompute > Seconds(0))
    parts.push_back(concat("recomputes ", time_text(plan.recompute)));
  for (std::string& clock : clocks_of(plan)) parts.push_back(std::move(clock));
  return join(parts, ", ");
}

std::string trade_off_csv(const std::vector<plan::Plan>& plans) {
  std::string text = "step_s,energy_j,step_ratio,energy_ratio,recompute_s,plan\n";
  for (const plan::Plan& plan : plans)
    text += concat(to_text(plan.step.count()), ",", to_text(plan.energy.count()), ",",
                   to_text(plan.step / plans.front().step), ",",
                   to_text(plan.energy / plans.front().energy), ",",
                   to_text(plan.recompute.count()), ",", csv_cell(in_short(plan)), "\n");
  return text;
}

std::string trade_off_page(const std::vector<plan::Plan>& plans, const std::string& title) {
  const Frame frame = frame_of(plans);
  std::string body = element("h1", {}, escaped(concat("Energy against time: ", title)));
  body += element("p", {},
                  escaped("Plans of one step within the budgets: none of them is both faster and "
                          "takes less energy than another. Times and joules are predicted."));
  body += svg(kWidth, kHeight, "energy against time", grid_of(frame) + curve_of(plans, frame));
  body += element("h2", {}, "Plans") + "\n" + table_of(plans);
  return page(concat("Energy of ", title), body);
}

}  // namespace trireme::report
