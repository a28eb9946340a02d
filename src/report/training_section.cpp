// SPDX-License-Identifier: Apache-2.0
#include "training_section.h"

#include "axis.h"
#include "markup.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme::report {
namespace {

using Points = std::vector<CurvePoint>;

constexpr double kWidth = 1080, kLeft = 64, kRight = 950;
/// Pixels from the top of a chart's name to its plot, and below a plot.
constexpr double kName = 24, kBetween = 14, kAxis = 34;
/// Pixels from one line of text to the next.
constexpr double kLine = 14;
/// Above kManySteps single steps hide the trend: means over kBlocks blocks are drawn too.
constexpr std::size_t kManySteps = 200, kBlocks = 100;

struct Series {
  std::string_view name;    ///< label at the curve's end; empty: none
  std::string_view colour;  ///< CSS class
  const Points* points;
  bool has_dots = false;
};

struct Chart {
  std::string name;
  double height = 0;
  bool from_zero = false;
  std::vector<Series> series;
};

/// A sentence that explains the curves.
std::string legend_of(const TrainingCurves& training);
std::vector<Chart> charts_of(const TrainingCurves& training);
/// Steps per block of means; 1: none are drawn.
std::size_t block_of(const Points& points);
Scale step_scale(const std::vector<Chart>& charts);
Scale value_scale(const Chart& chart, double top);
/// Scale and notation of a chart's values.
struct Values {
  Scale scale;
  Ticks ticks;

  std::string text(double value) const;
};
std::string draw(const Chart& chart, const Scale& steps, double top);
std::string curve(const Series& series, const Scale& steps, const Values& values);
/// Lines between points, with gaps at non-finite values; thinned to pixel resolution: the least and
/// the greatest value of every half pixel.
std::string outline(const Points& points, const Scale& steps, const Scale& values);
Points thinned(const Points& points, const Scale& steps);
/// The mean of every `block` points, at the last of them.
Points block_means(const Points& points, std::size_t block);
std::string dots(const Series& series, const Scale& steps, const Values& values);
/// Labels at the right ends of the curves, with the last value and its step if earlier, moved apart
/// where they would overlap.
std::string end_notes(const Chart& chart, const Scale& steps, const Values& values);
std::string step_axis(const Scale& steps, double top, double bottom);
/// A vertical line over all charts where the run last resumed; empty where it did not.
std::string resumption_mark(const TrainingCurves& training, const Scale& steps, double bottom);

}  // namespace

std::string training_section(const TrainingCurves& training) {
  const std::vector<Chart> charts = charts_of(training);
  if (charts.empty()) return "";
  const Scale steps = step_scale(charts);
  std::string drawing;
  double bottom = 0;
  for (const Chart& chart : charts) {
    drawing += draw(chart, steps, bottom + kName);
    bottom += kName + chart.height + kBetween;
  }
  bottom -= kBetween;
  return element("h2", {}, "Training") + "\n" + legend_of(training) +
         svg(kWidth, bottom + kAxis, "loss, throughput and more over the steps",
             step_axis(steps, kName, bottom) + resumption_mark(training, steps, bottom) + drawing);
}

namespace {

std::string legend_of(const TrainingCurves& training) {
  const std::size_t block = block_of(training.train_loss);
  std::string text = "Every training step";
  if (block > 1) text += concat(" (pale), the mean over ", block, " of them (strong)");
  if (!training.validation_loss.empty())
    text += ", and the validation loss where it was measured (dots)";
  text += ". At the right: the value of the last step alone";
  if (training.resumed_after > 0)
    text += concat(". The vertical line marks where the run resumed from step ",
                   training.resumed_after);
  return element("p", {}, escaped(text + ".")) + "\n";
}

std::vector<Chart> charts_of(const TrainingCurves& training) {
  const std::array<Chart, 4> all{
      {{"loss",
        220,
        false,
        {{"train", "s6", &training.train_loss, false},
         {"validation", "s1", &training.validation_loss, true}}},
       {training.unit + " per second", 80, true, {{"", "s9", &training.throughput, false}}},
       {"gradient norm, before clipping", 80, true, {{"", "s8", &training.gradient_norm, false}}},
       {"learning rate", 80, true, {{"", "s4", &training.learning_rate, false}}}}};
  std::vector<Chart> charts;
  for (Chart chart : all) {
    std::erase_if(chart.series, [](const Series& series) { return series.points->empty(); });
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

std::size_t block_of(const Points& points) {
  return points.size() <= kManySteps ? 1 : (points.size() + kBlocks - 1) / kBlocks;
}

Scale step_scale(const std::vector<Chart>& charts) {
  auto first = std::numeric_limits<std::int64_t>::max(), last = std::int64_t{0};
  for (const Chart& chart : charts) {
    for (const Series& series : chart.series) {
      first = std::min(first, series.points->front().step);
      last = std::max(last, series.points->back().step);
    }
  }
  if (first == last) --first;
  return {static_cast<double>(first), static_cast<double>(last), kLeft, kRight, false};
}

Scale value_scale(const Chart& chart, double top) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const Series& series : chart.series) {
    for (const CurvePoint& point : *series.points) {
      if (!std::isfinite(point.value)) continue;
      least = std::min(least, point.value);
      most = std::max(most, point.value);
    }
  }
  if (least > most) std::tie(least, most) = std::pair(0.0, 1.0);  // no number at all
  if (chart.from_zero) least = std::min(least, 0.0);
  double room = 0.06 * (most - least);
  if (room <= 0) room = std::max(0.06 * std::abs(most), 1e-9);
  const double from = chart.from_zero && least == 0 ? 0 : least - room;
  return {from, most + room, top + chart.height, top, false};
}

std::string draw(const Chart& chart, const Scale& steps, double top) {
  const Scale scale = value_scale(chart, top);
  const Values values{scale, number_ticks(scale, chart.height > 100 ? 6 : 3)};
  const std::string& unit = values.ticks.unit;
  std::string out = label(kLeft, top - 7, "heading",
                          unit.empty() ? chart.name : concat(chart.name, " (", unit, ")"));
  for (const Tick& tick : values.ticks.ticks) {
    const double y = scale.at(tick.value);
    out += line(kLeft, y, kRight, y, "grid");
    out += label(kLeft - 8, y + 4, "end", tick.text);
  }
  for (const Series& series : chart.series) out += curve(series, steps, values);
  return out + end_notes(chart, steps, values) + "\n";
}

std::string curve(const Series& series, const Scale& steps, const Values& values) {
  const std::size_t block = block_of(*series.points);
  const CurvePoint& last = series.points->back();
  const std::string told = title(concat(series.name, series.name.empty() ? "" : ": ",
                                        values.text(last.value), " after step ", last.step));
  const std::string how = concat("curve ", series.colour);
  std::string out = path(outline(*series.points, steps, values.scale),
                         block > 1 ? concat(how, " pale") : how, told);
  if (block > 1)
    out += path(outline(block_means(*series.points, block), steps, values.scale), how,
                title(concat("mean over ", block, " steps")));
  if (series.has_dots || series.points->size() == 1) out += dots(series, steps, values);
  return out;
}

std::string outline(const Points& points, const Scale& steps, const Scale& values) {
  std::string out;
  bool is_gap = true;
  for (const CurvePoint& point : thinned(points, steps)) {
    const bool is_number = std::isfinite(point.value);
    if (is_number)
      out += concat(is_gap ? "M" : "L", pixels(steps.at(static_cast<double>(point.step))), " ",
                    pixels(values.at(point.value)));
    is_gap = !is_number;
  }
  return out;
}

Points thinned(const Points& points, const Scale& steps) {
  const auto column = [&](const CurvePoint& point) {
    return std::floor(2 * steps.at(static_cast<double>(point.step)));
  };
  Points out;
  for (std::size_t i = 0; i < points.size();) {
    std::size_t end = i, least = i, most = i;
    for (; end < points.size() && column(points[end]) == column(points[i]); ++end) {
      if (!std::isfinite(points[end].value)) {
        least = most = end;  // a gap is shown, whatever else is in the column
        break;
      }
      if (points[end].value < points[least].value) least = end;
      if (points[end].value > points[most].value) most = end;
    }
    out.push_back(points[std::min(least, most)]);
    if (least != most) out.push_back(points[std::max(least, most)]);
    i = std::max(end, i + 1);
  }
  return out;
}

Points block_means(const Points& points, std::size_t block) {
  Points means;
  for (std::size_t i = 0; i < points.size(); i += block) {
    const std::size_t end = std::min(i + block, points.size());
    double sum = 0;
    for (std::size_t k = i; k < end; ++k) sum += points[k].value;
    means.push_back({points[end - 1].step, sum / static_cast<double>(end - i)});
  }
  return means;
}

std::string dots(const Series& series, const Scale& steps, const Values& values) {
  std::string out;
  for (const CurvePoint& point : thinned(*series.points, steps)) {
    if (!std::isfinite(point.value)) continue;
    out += element("circle",
                   {{"cx", pixels(steps.at(static_cast<double>(point.step)))},
                    {"cy", pixels(values.scale.at(point.value))},
                    {"r", "3.5"},
                    {"class", concat("dot ", series.colour)}},
                   title(concat(series.name, series.name.empty() ? "" : ": ",
                                values.text(point.value), " after step ", point.step)));
  }
  return out;
}

std::string end_notes(const Chart& chart, const Scale& steps, const Values& values) {
  std::vector<std::pair<double, std::string>> notes;
  for (const Series& series : chart.series) {
    const auto [step, last] = series.points->back();
    const double y = std::isfinite(last) ? values.scale.at(last) : values.scale.end;
    std::string note = values.text(last);
    if (!series.name.empty()) note = concat(series.name, " ", note);
    notes.emplace_back(y + 4, note);
    if (static_cast<double>(step) < steps.to)
      notes.emplace_back(y + 5, concat("(after step ", step, ")"));
  }
  std::stable_sort(notes.begin(), notes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // First downwards, each below the last; then upwards, what exceeds the bottom.
  double free = -std::numeric_limits<double>::infinity();
  for (auto& note : notes) {
    note.first = std::max(note.first, free);
    free = note.first + kLine;
  }
  double limit = values.scale.begin + kLine / 2;
  std::string out;
  for (auto note = notes.rbegin(); note != notes.rend(); ++note) {
    note->first = std::min(note->first, limit);
    limit = note->first - kLine;
    out += label(kRight + 8, note->first, "", note->second);
  }
  return out;
}

std::string step_axis(const Scale& steps, double top, double bottom) {
  std::string out;
  for (const Tick& tick : whole_ticks(steps, 10).ticks) {
    const double x = steps.at(tick.value);
    out += line(x, top, x, bottom, "grid") + label(x, bottom + 16, "middle", tick.text);
  }
  return out + label((kLeft + kRight) / 2, bottom + 31, "middle", "step");
}

std::string resumption_mark(const TrainingCurves& training, const Scale& steps, double bottom) {
  const auto step = static_cast<double>(training.resumed_after);
  if (training.resumed_after <= 0 || step < steps.from || step > steps.to) return "";
  const double x = steps.at(step);
  return element("g", {},
                 line(x, kName, x, bottom, "budget") +
                     title(concat("resumed from step ", training.resumed_after)));
}

std::string Values::text(double value) const {
  return std::isfinite(value) ? ticks.text(value) : "not finite";
}

}  // namespace
}  // namespace trireme::report
