// HTML page about one run: training curves, and a measured step next to the predicted one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/simulate.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::report {

/// A line of the page's head: {"loss", "2.3598"}.
struct Fact {
  std::string what, value;
};

/// A value after a step; NaN where there is none.
struct CurvePoint {
  std::int64_t step = 0;
  double value = 0;
};

/// Training curves over the steps of the whole run, ascending; each may be empty.
struct TrainingCurves {
  std::vector<CurvePoint> train_loss, validation_loss;
  std::vector<CurvePoint> throughput;  ///< `unit` per second
  std::vector<CurvePoint> gradient_norm, learning_rate;
  std::string unit = "tokens";
  std::int64_t resumed_after = 0;  ///< > 0: the run last resumed from a checkpoint of this step
};

/// Contents of the page; everything it points to must outlive the call.
struct RunPage {
  std::string name;  ///< name of the job
  const plan::Plan& plan;
  const chain::Chain& chain;  ///< may have no layers: their costs are then left out
  /// With Detail::kTimeline; null or without ranks: unknown. A measured step may have more ranks
  /// than the predicted one, namely those of further replicas.
  const simulate::Simulation* predicted = nullptr;
  const simulate::Simulation* measured = nullptr;
  std::vector<Bytes> budgets = {};  ///< by rank, 0: none; the plan's budgets for further ranks
  std::vector<Fact> facts = {};
  TrainingCurves training = {};
  /// Number of the measured step, number of steps, and median step time; 0: unknown.
  std::int64_t measured_number = 0, steps = 0;
  Seconds median = {};
  std::string early_end = {};  ///< "stopped in step 14 of 300"; empty: the run has completed
  std::string note = {};       ///< advice to the reader; empty: none
};

/// Self-contained HTML: styles and pictures (SVG) inside, no scripts. Training curves come first,
/// then one step, predicted and measured on the same scales.
///
/// Any action may be an event of a measured step. On the compute lane, transfers and copies count
/// as waiting, and loads, losses and the step's end as other work. A receive on the link lane is
/// the wait for its message, whose peer may be -1. The overlapped share of copies comes from
/// RankResult::wait_for_copies; the rest of a rank's step besides busy time and both waits is shown
/// too.
std::string run_page(const RunPage& run);

}  // namespace trireme::report
