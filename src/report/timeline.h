// Timelines of a step: lanes and memory of ranks on a common time axis.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axis.h"
#include "plan_ranks.h"

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/simulate/simulate.h"

#include <string>
#include <string_view>
#include <vector>

namespace trireme::report {

/// One step, predicted, measured or both; null if unknown, otherwise with ranks. Replicas are
/// alike, so one is predicted: measured rank r belongs to predicted rank r modulo their number.
struct Timelines {
  const simulate::Simulation* predicted = nullptr;
  const simulate::Simulation* measured = nullptr;

  bool both() const { return predicted != nullptr && measured != nullptr; }
  /// The measured step, or else the predicted one; null without either.
  const simulate::Simulation* main() const { return measured != nullptr ? measured : predicted; }
  int ranks() const { return main() == nullptr ? 0 : static_cast<int>(main()->ranks.size()); }
  /// The predicted rank of a measured one; the rank itself without a prediction.
  int predicted_rank(int rank) const;
  /// Null without a predicted, or measured, step.
  const simulate::RankResult* predicted_of(int rank) const;
  const simulate::RankResult* measured_of(int rank) const;
};

/// Position of a drawing in its picture.
struct Area {
  Scale time;  ///< seconds to pixels, the same for all drawings of a page
  double top = 0, bottom = 0;
};

/// Curves of bytes held: one, or the predicted one as a line over the measured one.
struct HeldOverTime {
  const simulate::RankResult* rank = nullptr;  ///< null: no curve
  Seconds step;                                ///< where the curve ends
};
struct Held {
  HeldOverTime predicted, measured;
};
/// The curves with the budget's line and the peaks.
std::string memory_chart(const Held& held, const Limits& limits, const Area& area);

/// Rows of blocks from area.top down, and their lower end.
struct Lanes {
  std::string drawing;
  double bottom = 0;
};
/// One row per lane of the rank that is used; numbers in blocks are layers.
Lanes lane_rows(const simulate::Simulation& simulation, const chain::Chain& chain, int rank,
                const Area& area);
/// One row of compute per rank of `ranks`, a block per pass; numbers in blocks are micro-batches.
/// `chunks`, by layer from 1: the number of its chunk; empty: one on each rank.
Lanes pass_rows(const simulate::Simulation& simulation, const chain::Chain& chain,
                const std::vector<int>& ranks, const std::vector<int>& chunks, const Area& area);

/// The time axis at the bottom; its last number has the unit.
std::string time_axis(const Scale& time, double top, double bottom);

}  // namespace trireme::report
