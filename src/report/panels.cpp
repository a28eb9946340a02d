// SPDX-License-Identifier: Apache-2.0
#include "panels.h"

#include "markup.h"
#include "rows.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace trireme::report {
namespace {

using simulate::Simulation;

constexpr double kWidth = 1080, kLeft = 156, kRight = 990;
constexpr double kTop = 10, kMemoryHeight = 170, kBetween = 16;
/// Height of a heading line, and of the axis at the bottom.
constexpr double kHeading = 20, kAxis = 26;

/// From 0 to the latest end.
Scale time_scale(const Timelines& timelines);
/// Appends lanes, with a heading if predicted and measured are both shown.
void append(Lanes& all, const Timelines& timelines, std::string_view heading, const Lanes& more);
double after_heading(const Lanes& all, const Timelines& timelines);
std::string heading_of(std::string_view what, const Simulation& simulation);
std::set<Kind> kinds_of(const Timelines& timelines);
std::string key(std::string_view text, std::string_view picture);
std::string swatch(std::string_view how);

}  // namespace

std::string legend(const Timelines& timelines) {
  const std::set<Kind> there = kinds_of(timelines);
  constexpr std::array<std::pair<Kind, std::string_view>, 8> kNames{
      {{Kind::kForward, "forward"},
       {Kind::kRecompute, "recompute"},
       {Kind::kBackward, "backward"},
       {Kind::kWeights, "weight gradients"},
       {Kind::kCopy, "copy out or in"},
       {Kind::kMessage, "message"},
       {Kind::kWait, "waiting"},
       {Kind::kOther, "loads, loss, step"}}};
  std::string keys;
  for (const auto& [kind, text] : kNames) {
    if (there.contains(kind)) keys += key(text, swatch(name(kind)));
  }
  if (timelines.both()) {
    keys += key("bytes held, measured", swatch("held"));
    keys += key("bytes held, predicted", line(0, 7, 14, 7, "predicted"));
  }
  return element("div", {{"class", "legend"}}, keys) + "\n";
}

std::string pipeline_panel(const Timelines& timelines, const chain::Chain& chain,
                           const std::vector<int>& chunks, const std::vector<int>& ranks) {
  const Scale time = time_scale(timelines);
  Lanes all{"", kTop};
  for (const auto& [what, simulation] :
       {std::pair{"predicted", timelines.predicted}, std::pair{"measured", timelines.measured}}) {
    if (simulation == nullptr) continue;
    std::vector<int> shown = ranks;
    std::erase_if(shown, [count = static_cast<int>(simulation->ranks.size())](int rank) {
      return rank >= count;
    });
    const double top = after_heading(all, timelines);
    append(all, timelines, heading_of(what, *simulation),
           pass_rows(*simulation, chain, shown, chunks, {time, top, top}));
  }
  return svg(kWidth, all.bottom + kAxis, "compute of all ranks",
             time_axis(time, kTop, all.bottom) + all.drawing);
}

std::string rank_panel(const Timelines& timelines, const chain::Chain& chain, int rank,
                       const Limits& limits) {
  const Scale time = time_scale(timelines);
  const Area memory{time, kTop, kTop + kMemoryHeight};
  Held held;
  if (const auto* result = timelines.predicted_of(rank))
    held.predicted = {result, timelines.predicted->step};
  if (const auto* result = timelines.measured_of(rank))
    held.measured = {result, timelines.measured->step};
  Lanes all{"", memory.bottom + kBetween};
  if (held.predicted.rank != nullptr) {
    const double top = after_heading(all, timelines);
    append(
        all, timelines, "predicted",
        lane_rows(*timelines.predicted, chain, timelines.predicted_rank(rank), {time, top, top}));
  }
  if (held.measured.rank != nullptr) {
    const double top = after_heading(all, timelines);
    append(all, timelines, "measured",
           lane_rows(*timelines.measured, chain, rank, {time, top, top}));
  }
  return svg(
      kWidth, all.bottom + kAxis, concat("memory and lanes of rank ", rank),
      concat(time_axis(time, kTop, all.bottom), memory_chart(held, limits, memory), all.drawing));
}

namespace {

Scale time_scale(const Timelines& timelines) {
  Seconds end;
  for (const Simulation* const one : {timelines.predicted, timelines.measured}) {
    if (one == nullptr) continue;
    end = std::max(end, one->step);
    for (const simulate::Event& event : one->events) end = std::max(end, event.end);
  }
  return {0, end > Seconds(0) ? end.count() : 1, kLeft, kRight, false};
}

void append(Lanes& all, const Timelines& timelines, std::string_view heading, const Lanes& more) {
  if (timelines.both()) all.drawing += label(kLeft, all.bottom + 13, "heading", heading);
  all.drawing += more.drawing;
  all.bottom = more.bottom + (timelines.both() ? 4 : 0);
}

double after_heading(const Lanes& all, const Timelines& timelines) {
  return all.bottom + (timelines.both() ? kHeading : 0);
}

std::string heading_of(std::string_view what, const Simulation& simulation) {
  return concat(what, ": step ", time_text(simulation.step), ", bubble ",
                percent_text(simulation.bubble));
}

std::set<Kind> kinds_of(const Timelines& timelines) {
  std::set<Kind> kinds;
  for (const Simulation* const one : {timelines.predicted, timelines.measured}) {
    if (one == nullptr) continue;
    for (const simulate::Event& event : one->events) kinds.insert(kind_of(event));
  }
  return kinds;
}

std::string key(std::string_view text, std::string_view picture) {
  return element("span", {{"class", "key"}},
                 element("svg",
                         {{"xmlns", "http://www.w3.org/2000/svg"},
                          {"width", "14"},
                          {"height", "14"},
                          {"aria-hidden", "true"}},
                         picture) +
                     escaped(text));
}

std::string swatch(std::string_view how) {
  return element(
      "rect",
      {{"x", "0.5"}, {"y", "0.5"}, {"width", "13"}, {"height", "13"}, {"class", std::string(how)}});
}

}  // namespace
}  // namespace trireme::report
