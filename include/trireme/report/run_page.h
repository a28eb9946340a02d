// One page on one run: a measured step beside the predicted one.
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

/// What training is about, over the steps of the whole run, by rising step; each may be empty.
struct TrainingCurves {
  std::vector<CurvePoint> train_loss, validation_loss;
  std::vector<CurvePoint> throughput;  ///< `unit` per second
  std::vector<CurvePoint> gradient_norm, learning_rate;
  std::string unit = "tokens";
  std::int64_t resumed_after = 0;  ///< > 0: the run last went on from a checkpoint of this step
};

/// What a page is made of; everything that it points to must outlive the call.
struct RunPage {
  std::string name;  ///< of the job
  const plan::Plan& plan;
  const chain::Chain& chain;  ///< may have no layers: their costs are then not told
  /// With Detail::kTimeline; null, or without ranks: not known. A measured step may have more ranks
  /// than the predicted one, whose replicas they are.
  const simulate::Simulation* predicted = nullptr;
  const simulate::Simulation* measured = nullptr;
  std::vector<Bytes> budgets = {};  ///< by rank, 0: none; those of the plan where it ends
  std::vector<Fact> facts = {};
  TrainingCurves training = {};
  /// The number of the measured step among how many, and the median of their times; 0: not told.
  std::int64_t measured_number = 0, steps = 0;
  Seconds median = {};
  std::string early_end = {};  ///< "stopped in step 14 of 300"; empty: the run has completed
  std::string note = {};       ///< what a reader should do; empty: nothing
};

/// HTML that needs nothing else: styles and pictures (SVG) inside, no scripts. The curves of
/// training come first; then a step, predicted and measured on the same scales.
///
/// Of a measured step, any action may be an event. On the compute lane, transfers and copies count
/// as waiting, and loads, losses and the step's end as other work; a receive on the link lane is
/// the wait for its message, whose peer may be -1. The share of copies that overlapped is told from
/// RankResult::wait_for_copies, and what is left of a rank's step beside busy and both waits is
/// told, too.
std::string run_page(const RunPage& run);

}  // namespace trireme::report
