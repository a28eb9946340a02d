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

/// A budget more than so many times the peak would press the curve flat: it is said, not drawn.
constexpr double kFarAbove = 2.5;
constexpr std::size_t kMostTold = 8;

double count(Bytes size) {
  return static_cast<double>(size.count());
}

/// The curve as far as pixels can show it: of every half pixel the most and the last. That leaves
/// out dips of no duration between two actions, but no spikes.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, const Scale& time);
std::string outline(const simulate::RankResult& rank, const Area& area, const Scale& bytes);
std::string peak_tip(const simulate::Peak& peak);
std::string limit_lines(const simulate::RankResult& rank, const Limits& limits, const Area& area,
                        const Scale& bytes);

}  // namespace

std::string memory_chart(const simulate::RankResult& rank, const Limits& limits, const Area& area) {
  const bool near = count(limits.budget) <= kFarAbove * count(rank.peak.size);
  const Bytes highest = near ? std::max(limits.budget, rank.peak.size) : rank.peak.size;
  const Scale bytes{0, std::max(1.0, count(highest) * 1.12), area.bottom, area.top, false};
  std::string out;
  const Ticks ticks = byte_ticks(bytes, 5);
  for (const Tick& tick : ticks.ticks) {
    const double y = bytes.at(tick.value);
    out += line(area.time.begin, y, area.time.end, y, "grid");
    out += label(area.time.begin - 8, y + 4, "end", tick.text);
  }
  const double middle = (area.top + area.bottom) / 2;
  out += element("text",
                 {{"transform", concat("translate(18,", pixels(middle), ") rotate(-90)")},
                  {"class", "middle"}},
                 escaped(concat("held (", ticks.unit, ")")));
  return out + limit_lines(rank, limits, area, bytes) + outline(rank, area, bytes) + "\n";
}

namespace {

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

std::string outline(const simulate::RankResult& rank, const Area& area, const Scale& bytes) {
  const std::vector<MemoryPoint> points = thinned(rank.curve, area.time);
  if (points.empty()) return "";
  std::string steps =
      concat("M", pixels(area.time.at(points.front().time.count())), " ", pixels(area.bottom));
  for (const MemoryPoint& point : points)
    steps += concat("H", pixels(area.time.at(point.time.count())), "V",
                    pixels(bytes.at(count(point.held))));
  steps += concat("H", pixels(area.time.end), "V", pixels(area.bottom), "Z");
  return path(steps, "held", title("bytes held on the device")) +
         element("circle",
                 {{"cx", pixels(area.time.at(rank.peak.time.count()))},
                  {"cy", pixels(bytes.at(count(rank.peak.size)))},
                  {"r", "4.5"},
                  {"class", "peak"}},
                 title(peak_tip(rank.peak)));
}

std::string peak_tip(const simulate::Peak& peak) {
  std::string text = concat("peak ", to_text(peak.size), " after ", to_text(peak.time));
  if (peak.action) text += concat(", ", program::to_text(*peak.action));
  for (std::size_t k = 0; k < std::min(peak.contents.size(), kMostTold); ++k)
    text += concat("\n", to_text(peak.contents[k].second), "  ", peak.contents[k].first);
  if (peak.contents.size() > kMostTold)
    text += concat("\n... and ", peak.contents.size() - kMostTold, " smaller ones");
  return text;
}

std::string limit_lines(const simulate::RankResult& rank, const Limits& limits, const Area& area,
                        const Scale& bytes) {
  const double left = area.time.begin, right = area.time.end;
  std::string out;
  if (limits.always > Bytes(0)) {
    const double y = bytes.at(count(limits.always));
    out += element("rect",
                   {{"x", pixels(left)},
                    {"y", pixels(y)},
                    {"width", pixels(right - left)},
                    {"height", pixels(area.bottom - y)},
                    {"class", "static"}},
                   title(concat("static: ", to_text(limits.always))));
    out += label(right + 6, std::min(y + 4, area.bottom), "", "static");
  }
  if (limits.budget <= Bytes(0)) return out;
  const bool drawn = count(limits.budget) <= bytes.to;
  const double y = drawn ? bytes.at(count(limits.budget)) : area.top;
  if (drawn) out += line(left, y, right, y, "budget");
  const bool close = drawn && rank.peak.size > Bytes(0);
  return out + label(right + 6, y + 4, "over", drawn && close ? "budget" : "budget above") +
         label(right + 6, y + 18, "over", to_text(limits.budget));
}

}  // namespace
}  // namespace trireme::report
