// What one rank does and holds over a step, drawn above each other on one axis of time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axis.h"

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/simulate/simulate.h"

#include <string>

namespace trireme::report {

/// Where a drawing lies in its picture.
struct Area {
  Scale time;  ///< seconds to pixels, the same for all drawings of a page
  double top = 0, bottom = 0;
};

/// A rank's budget (0: none) and what of it is always there.
struct Limits {
  Bytes budget, always;
};

/// Bytes held over time, with the budget's line and the peak.
std::string memory_chart(const simulate::RankResult& rank, const Limits& limits, const Area& area);

/// One row of blocks per lane of the rank that does anything, from `top` on.
struct Lanes {
  std::string drawing;
  double bottom = 0;
};
Lanes lane_rows(const simulate::Simulation& simulation, const chain::Chain& chain, int rank,
                const Area& area);

/// The axis below, with its name.
std::string time_axis(const Scale& time, double top, double bottom);

}  // namespace trireme::report
