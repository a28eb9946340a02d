// Page of a sweep. A plan for a budget also fits every larger one, so a solver's curve is a
// staircase: it holds its time until a budget makes it faster.
// SPDX-License-Identifier: Apache-2.0
#include "axis.h"
#include "chart.h"
#include "markup.h"

#include "trireme/core/text.h"
#include "trireme/report/sweep.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <map>

namespace trireme::report {
namespace {

constexpr double kWidth = 1080, kHeight = 460;
constexpr double kLeft = 76, kRight = 900, kTop = 18, kBottom = 404;
constexpr int kColours = 12;
/// Ratio of step times above which the axis is logarithmic.
constexpr double kFarApart = 3;
/// Upper end of the picture, relative to the slowest of the best steps: one slow solver must not
/// flatten the others.
constexpr double kHeadroom = 1.25;

struct Frame {
  Scale x, y;
};

/// The slowest step drawn at its true height.
double highest_shown(const Sweep& sweep);

Frame frame_of(const Sweep& sweep);
std::string grid_of(const Sweep& sweep, const Frame& frame);
std::string curve_of(const Sweep& sweep, std::size_t solver, const Frame& frame);
std::string tooltip(const Sweep& sweep, const SweepPoint& point);
/// A marker at (x, y); neighbours in the legend differ in shape as well as in colour.
struct Look {
  std::size_t number = 0;
  bool hollow = false;
};
std::string mark(Look look, double x, double y, std::string_view tip);
std::string legend_of(const Sweep& sweep);
std::string table_of(const Sweep& sweep);
std::string colour(std::size_t solver);
/// Policies without a search are drawn lighter.
bool is_baseline(const std::string& solver);

}  // namespace

std::string sweep_page(const Sweep& sweep) {
  const bool any = std::any_of(sweep.points.begin(), sweep.points.end(),
                               [](const SweepPoint& point) { return point.cost.has_value(); });
  std::string body = element("h1", {}, escaped(concat("Time against memory: ", sweep.chain_name)));
  body +=
      element("p", {},
              escaped(concat(
                  "One step of ", count_of(sweep.micro_batches, "micro-batch"),
                  " on one rank, by solver and memory budget. Without recomputation a step takes ",
                  time_text(sweep.ideal), ".")));
  if (any) {
    const Frame frame = frame_of(sweep);
    std::string picture = grid_of(sweep, frame);
    // Baselines are drawn last: their hollow marks show what is below.
    for (const bool baseline : {false, true}) {
      for (std::size_t k = 0; k < sweep.solvers.size(); ++k) {
        if (is_baseline(sweep.solvers[k]) == baseline) picture += curve_of(sweep, k, frame);
      }
    }
    body += svg(kWidth, kHeight, "time against memory", picture + legend_of(sweep));
  } else {
    body += element("p", {}, "No solver fits into any of the budgets.");
  }
  body += element("h2", {}, "Step time by budget") + "\n" + table_of(sweep);
  return page(concat("Sweep of ", sweep.chain_name), body);
}

namespace {

double highest_shown(const Sweep& sweep) {
  std::map<Bytes, double> best;
  double slowest = sweep.ideal.count();
  for (const SweepPoint& point : sweep.points) {
    if (!point.cost) continue;
    const double step = point.cost->step.count();
    const auto [place, is_new] = best.try_emplace(point.budget, step);
    if (!is_new) place->second = std::min(place->second, step);
    slowest = std::max(slowest, step);
  }
  double slowest_best = 0;
  for (const auto& [budget, step] : best) slowest_best = std::max(slowest_best, step);
  return std::min(slowest, kHeadroom * slowest_best);
}

Frame frame_of(const Sweep& sweep) {
  const double low = sweep.ideal.count(), high = highest_shown(sweep);
  Frame frame;
  frame.x = {static_cast<double>(sweep.points.front().budget.count()),
             static_cast<double>(sweep.points.back().budget.count()), kLeft, kRight, false};
  const double margin = std::max((frame.x.to - frame.x.from) * 0.02, 0.5);
  frame.x.from -= margin;
  frame.x.to += margin;
  frame.y = {low, high, kBottom, kTop, low > 0 && high > kFarApart * low};
  if (frame.y.logarithmic) {
    frame.y.from /= 1.06;
    frame.y.to *= 1.06;
  } else {
    const double room = std::max((high - low) * 0.06, high > 0 ? high * 1e-3 : 1.0);
    frame.y.from -= room;
    frame.y.to += room;
  }
  return frame;
}

std::string grid_of(const Sweep& sweep, const Frame& frame) {
  const Ticks x = byte_ticks(frame.x, 9), y = time_ticks(frame.y, 8);
  const double ideal = frame.y.at(sweep.ideal.count());
  return chart_grid({frame.x, x, concat("memory budget of the rank (", x.unit, ")")},
                    {frame.y, y,
                     concat("step time (", y.unit, frame.y.logarithmic ? ", logarithmic)" : ")")}) +
         line(kLeft, ideal, kRight, ideal, "ideal") + "\n";
}

std::string curve_of(const Sweep& sweep, std::size_t solver, const Frame& frame) {
  const bool baseline = is_baseline(sweep.solvers[solver]);
  std::string steps, marks;
  for (const SweepPoint& point : sweep.points) {
    if (point.solver != sweep.solvers[solver] || !point.cost) continue;
    const double x = frame.x.at(static_cast<double>(point.budget.count()));
    const bool above = point.cost->step.count() > frame.y.to;
    const double y = above ? kTop : frame.y.at(point.cost->step.count());
    steps += steps.empty() ? concat("M", pixels(x), " ", pixels(y))
                           : concat("H", pixels(x), "V", pixels(y));
    if (above) {
      marks += path(concat("M", pixels(x - 5), " ", pixels(kTop + 7), "l5 -9l5 9z"), "dot",
                    title(concat("above the picture: ", tooltip(sweep, point))));
    } else {
      marks += mark({solver, baseline}, x, y, tooltip(sweep, point));
    }
  }
  if (steps.empty()) return "";
  return element("g", {{"class", colour(solver)}},
                 path(steps, baseline ? "curve baseline" : "curve") + marks) +
         "\n";
}

std::string tooltip(const Sweep& sweep, const SweepPoint& point) {
  const SweepCost& cost = *point.cost;
  std::string text =
      concat(point.solver, " within ", to_text(point.budget), "\nstep ", time_text(cost.step), " (",
             overhead_text(cost.step, sweep.ideal), ")\npeak ", to_text(cost.peak), "\nrecompute ",
             time_text(cost.recompute));
  if (cost.moved > Bytes(0)) text += concat("\nmoved ", to_text(cost.moved));
  return text;
}

std::string mark(Look look, double x, double y, std::string_view tip) {
  const std::string inside = tip.empty() ? "" : title(tip);
  const std::string how = look.hollow ? "dot hollow" : "dot";
  const auto outline = [&](double dx, double dy, std::string_view rest) {
    return path(concat("M", pixels(x + dx), " ", pixels(y + dy), rest), how, inside);
  };
  switch (look.number % 4) {
    case 0:
      return element("circle", {{"cx", pixels(x)}, {"cy", pixels(y)}, {"r", "3.8"}, {"class", how}},
                     inside);
    case 1:
      return outline(-3.4, -3.4, "h6.8v6.8h-6.8z");
    case 2:
      return outline(0, -4.8, "l4.8 4.8l-4.8 4.8l-4.8 -4.8z");
    default:
      return outline(0, -4.6, "l4.6 8h-9.2z");
  }
}

std::string legend_of(const Sweep& sweep) {
  std::string out;
  double y = kTop + 8;
  for (std::size_t k = 0; k < sweep.solvers.size(); ++k, y += 22) {
    const bool fits =
        std::any_of(sweep.points.begin(), sweep.points.end(), [&](const SweepPoint& point) {
          return point.solver == sweep.solvers[k] && point.cost.has_value();
        });
    const bool baseline = is_baseline(sweep.solvers[k]);
    const std::string how = baseline ? "curve baseline" : "curve";
    out += element(
        "g", {{"class", colour(k)}},
        line(kRight + 22, y, kRight + 50, y, how) + mark({k, baseline}, kRight + 36, y, ""));
    out += label(kRight + 58, y + 4, fits ? "name" : "",
                 fits ? sweep.solvers[k] : sweep.solvers[k] + " (never fits)");
  }
  out += line(kRight + 22, y, kRight + 50, y, "ideal");
  return out + label(kRight + 58, y + 4, "", "no recomputation");
}

std::string table_of(const Sweep& sweep) {
  std::map<Bytes, std::map<std::string, std::string>> cells;
  for (const SweepPoint& point : sweep.points) {
    cells[point.budget][point.solver] = point.cost ? time_text(point.cost->step) : "-";
  }
  std::vector<std::vector<std::string>> rows(1, {"budget"});
  rows.front().insert(rows.front().end(), sweep.solvers.begin(), sweep.solvers.end());
  for (const auto& [budget, by_solver] : cells) {
    std::vector<std::string> row{to_text(budget)};
    for (const std::string& solver : sweep.solvers) {
      const auto found = by_solver.find(solver);
      row.push_back(found == by_solver.end() ? "" : found->second);
    }
    rows.push_back(std::move(row));
  }
  return html_table(rows);
}

std::string colour(std::size_t solver) {
  return concat("s", solver % kColours);
}

bool is_baseline(const std::string& solver) {
  const std::string name = solver.substr(0, solver.find(' '));
  return name == "keep_all" || name == "recompute_all" || name == "periodic" || name == "sqrt" ||
         name == "capuchin";
}

}  // namespace
}  // namespace trireme::report
