// SPDX-License-Identifier: Apache-2.0
#include "markup.h"
#include "timeline.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme::report {
namespace {

using simulate::MemoryPoint;

/// Budgets above this multiple of the peak would flatten the curve: they are named, not drawn.
constexpr double kFarAbove = 2.5;
constexpr std::size_t kMostTold = 8;
/// Line height of text in pixels.
constexpr double kLine = 14;

/// Text to the right of the chart, starting at `y`.
struct Note {
  double y = 0;
  std::vector<std::string> lines;
  std::string how;
};

double count(Bytes size) {
  return static_cast<double>(size.count());
}

Bytes highest_peak(const Held& held);
std::string byte_axis(const Area& area, const Scale& bytes);
std::string curves(const Held& held, const Area& area, const Scale& bytes);
/// The curve as a step function, from the first point to the step's end.
std::string outline(const HeldOverTime& held, const Area& area, const Scale& bytes);
/// The curve thinned to pixel resolution: the maximum and the last point of every half pixel. That
/// drops dips of no duration between two actions, but no spikes.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, const Scale& time);
std::string peak_mark(const simulate::Peak& peak, std::string_view how, const Area& area,
                      const Scale& bytes);
std::string limit_lines(Bytes peak, const Limits& limits, const Area& area, const Scale& bytes);
/// Places the notes so that they do not overlap.
std::string placed(std::vector<Note> notes, double x, const Area& area);

}  // namespace

std::string memory_chart(const Held& held, const Limits& limits, const Area& area) {
  const Bytes peak = highest_peak(held);
  const bool near = count(limits.budget) <= kFarAbove * count(peak);
  const Bytes highest = near ? std::max(limits.budget, peak) : peak;
  const Scale bytes{0, std::max(1.0, count(highest) * 1.12), area.bottom, area.top, false};
  return byte_axis(area, bytes) + limit_lines(peak, limits, area, bytes) +
         curves(held, area, bytes) + "\n";
}

namespace {

Bytes highest_peak(const Held& held) {
  Bytes peak;
  for (const HeldOverTime* const one : {&held.predicted, &held.measured}) {
    if (one->rank != nullptr) peak = std::max(peak, one->rank->peak.size);
  }
  return peak;
}

std::string byte_axis(const Area& area, const Scale& bytes) {
  std::string out;
  const Ticks ticks = byte_ticks(bytes, 5);
  for (const Tick& tick : ticks.ticks) {
    const double y = bytes.at(tick.value);
    out += line(area.time.begin, y, area.time.end, y, "grid");
    out += label(area.time.begin - 8, y + 4, "end", tick.text);
  }
  const double middle = (area.top + area.bottom) / 2;
  return out + element("text",
                       {{"transform", concat("translate(", pixels(area.time.begin - 62), ",",
                                             pixels(middle), ") rotate(-90)")},
                        {"class", "middle"}},
                       escaped(concat("held (", ticks.unit, ")")));
}

std::string curves(const Held& held, const Area& area, const Scale& bytes) {
  const bool both = held.predicted.rank != nullptr && held.measured.rank != nullptr;
  const HeldOverTime& filled = held.measured.rank != nullptr ? held.measured : held.predicted;
  if (filled.rank == nullptr) return "";
  std::string out;
  if (const std::string steps = outline(filled, area, bytes); !steps.empty()) {
    const std::string bottom = pixels(area.bottom);
    const std::string begin = pixels(area.time.at(filled.rank->curve.front().time.count()));
    out += path(concat(steps, "V", bottom, "H", begin, "Z"), "held",
                title(both ? "measured: bytes held on the device" : "bytes held on the device"));
  }
  if (both) {
    out += path(outline(held.predicted, area, bytes), "predicted",
                title("predicted: bytes held on the device"));
    out += peak_mark(held.predicted.rank->peak, "peak predicted", area, bytes);
  }
  return out + peak_mark(filled.rank->peak, "peak", area, bytes);
}

std::string outline(const HeldOverTime& held, const Area& area, const Scale& bytes) {
  std::string steps;
  for (const MemoryPoint& point : thinned(held.rank->curve, area.time)) {
    const std::string x = pixels(area.time.at(point.time.count()));
    const std::string y = pixels(bytes.at(count(point.held)));
    steps += steps.empty() ? concat("M", x, " ", y) : concat("H", x, "V", y);
  }
  return steps.empty() ? "" : concat(steps, "H", pixels(area.time.at(held.step.count())));
}

std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, const Scale& time) {
  const auto column = [&](const MemoryPoint& point) {
    return std::floor(2 * time.at(point.time.count()));
  };
  std::vector<MemoryPoint> out;
  for (std::size_t i = 0; i < curve.size();) {
    std::size_t end = i, most = i;
    for (; end < curve.size() && column(curve[end]) == column(curve[i]); ++end) {
      if (curve[end].held > curve[most].held) most = end;
    }
    for (const std::size_t k : {most, end - 1}) {
      if (out.empty() || out.back() != curve[k]) out.push_back(curve[k]);
    }
    i = end;
  }
  return out;
}

std::string peak_mark(const simulate::Peak& peak, std::string_view how, const Area& area,
                      const Scale& bytes) {
  std::string text = concat(how == "peak" ? "" : "predicted ", "peak ", to_text(peak.size),
                            " after ", to_text(peak.time));
  if (peak.action) text += concat(", ", program::to_text(*peak.action));
  for (std::size_t k = 0; k < std::min(peak.contents.size(), kMostTold); ++k)
    text += concat("\n", to_text(peak.contents[k].second), "  ", peak.contents[k].first);
  if (peak.contents.size() > kMostTold)
    text += concat("\n... and ", peak.contents.size() - kMostTold, " smaller ones");
  return element("circle",
                 {{"cx", pixels(area.time.at(peak.time.count()))},
                  {"cy", pixels(bytes.at(count(peak.size)))},
                  {"r", "4.5"},
                  {"class", std::string(how)}},
                 title(text));
}

std::string limit_lines(Bytes peak, const Limits& limits, const Area& area, const Scale& bytes) {
  const double left = area.time.begin, right = area.time.end;
  std::string out;
  std::vector<Note> notes;
  if (limits.budget > Bytes(0)) {
    const bool drawn = count(limits.budget) <= bytes.to;
    const double y = drawn ? bytes.at(count(limits.budget)) : area.top;
    if (drawn) out += line(left, y, right, y, "budget");
    const bool close = drawn && peak > Bytes(0);
    notes.push_back({y, {close ? "budget" : "budget above", to_text(limits.budget)}, "over"});
  }
  if (limits.always > Bytes(0)) {
    const double y = bytes.at(count(limits.always));
    out += element("rect",
                   {{"x", pixels(left)},
                    {"y", pixels(y)},
                    {"width", pixels(right - left)},
                    {"height", pixels(area.bottom - y)},
                    {"class", "static"}},
                   title(concat("static: ", to_text(limits.always))));
    notes.push_back({y, {"static", to_text(limits.always)}, ""});
  }
  return out + placed(std::move(notes), right + 6, area);
}

std::string placed(std::vector<Note> notes, double x, const Area& area) {
  std::stable_sort(notes.begin(), notes.end(),
                   [](const Note& a, const Note& b) { return a.y < b.y; });
  // First downwards, each below the last; then upwards, what exceeds the bottom.
  double free = area.top;
  for (Note& note : notes) {
    note.y = std::max(note.y, free);
    free = note.y + kLine * static_cast<double>(note.lines.size());
  }
  double limit = area.bottom + kLine / 2;
  for (auto note = notes.rbegin(); note != notes.rend(); ++note) {
    note->y = std::min(note->y, limit - kLine * static_cast<double>(note->lines.size()));
    limit = note->y;
  }
  std::string out;
  for (const Note& note : notes) {
    double y = note.y + 4;
    for (const std::string& text : note.lines) {
      out += label(x, y, note.how, text);
      y += kLine;
    }
  }
  return out;
}

}  // namespace
}  // namespace trireme::report
