// SPDX-License-Identifier: Apache-2.0
#include "chart.h"

#include "markup.h"

#include "trireme/core/text.h"

namespace trireme::report {

std::string chart_grid(const ChartAxis& x, const ChartAxis& y) {
  const double left = x.scale.begin, right = x.scale.end;
  const double bottom = y.scale.begin, top = y.scale.end;
  std::string out;
  for (const Tick& tick : y.ticks.ticks) {
    const double at = y.scale.at(tick.value);
    out += line(left, at, right, at, "grid") + label(left - 8, at + 4, "end", tick.text);
  }
  for (const Tick& tick : x.ticks.ticks) {
    const double at = x.scale.at(tick.value);
    out += line(at, top, at, bottom, "grid") + label(at, bottom + 18, "middle", tick.text);
  }
  out += line(left, bottom, right, bottom, "axis") + line(left, top, left, bottom, "axis");
  out += label((left + right) / 2, bottom + 42, "middle name", x.name);
  const std::string turned = concat("translate(18,", pixels((top + bottom) / 2), ") rotate(-90)");
  return out + element("text", {{"transform", turned}, {"class", "middle name"}}, escaped(y.name));
}

}  // namespace trireme::report
