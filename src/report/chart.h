// The frame of a chart: grid, axes and their names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axis.h"

#include <string>

namespace trireme::report {

struct ChartAxis {
  Scale scale;
  Ticks ticks;
  std::string name;
};

/// A line and a number for each tick, both axes, and their names: x below, y to the left.
std::string chart_grid(const ChartAxis& x, const ChartAxis& y);

}  // namespace trireme::report
