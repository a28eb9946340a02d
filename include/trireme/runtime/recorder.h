// What one rank really did and held in one step, in the terms in which it was predicted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/core/units.h"
#include "trireme/device/marks.h"
#include "trireme/program/action.h"
#include "trireme/program/weights_here.h"
#include "trireme/simulate/simulate.h"
#include "trireme/tier/copy_lane.h"
#include "trireme/tier/device_memory.h"

#include <chrono>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// One rank's part of a step as it was.
struct Recording {
  /// What of the run no single event tells: waits may lie amid an action, and the optimizer's state
  /// comes and goes within the update.
  struct Totals {
    Seconds busy{0}, recompute{0}, wait_for_ranks{0}, wait_for_copies{0};
    Seconds state_out{0}, state_in{0};  ///< copies
    Bytes moved, state_moved, weights_moved;
    simulate::OffloadRoom offloaded;
    Seconds end{0};  ///< of the run
  };

  std::vector<simulate::Event> events;
  std::vector<simulate::MemoryPoint> curve;
  Totals totals;
};

/// Writes down when actions ran and what was held. Costs some 100 ns per action.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;

  Recorder(int rank, tier::DeviceMemory& memory) : rank_(rank), memory_(memory) {}

  /// A run begins now, timed by `marks`; whatever was written before is forgotten.
  void begin(device::Marks& marks);
  device::Marks::Mark now() { return marks_->set(); }
  /// An action ran from `from` until now; `again`: a forward beyond the first.
  void ran(const program::Action& action, device::Marks::Mark from, bool again);
  /// Streamed weights or gradients moved: a copy of them begins.
  void named(const program::WeightsMove& move);
  /// The marks have settled: times are known. Once, before copies().
  void settle();
  /// The lane's copies, in the order in which they were named.
  void copies(simulate::Lane lane, const std::deque<tier::CopyLane::Span>& spans);

  /// The run ends now, which need not be said in the totals.
  void ended(const Recording::Totals& totals);

  /// Hands over what was written of the run that has ended.
  Recording take() { return std::exchange(run_, {}); }

 private:
  struct Interval {
    device::Marks::Mark from, to;
  };
  Seconds since_begin(Clock::time_point time) const;
  void point(device::Marks::Mark time, Bytes held);

  int rank_;
  tier::DeviceMemory& memory_;
  device::Marks* marks_ = nullptr;
  device::Marks::Mark begin_ = 0;
  std::vector<Interval> times_;              ///< of the run's events
  std::vector<device::Marks::Mark> points_;  ///< of the run's curve
  std::vector<program::Action> named_out_, named_in_, named_weights_, named_weights_out_;
  Recording run_;
};

/// Records the action that runs while it lives; `recorder` may be null.
class RecordScope {
 public:
  RecordScope(Recorder* recorder, const program::Action& action, bool again)
      : recorder_(recorder), action_(action), again_(again) {
    if (recorder_ != nullptr) from_ = recorder_->now();
  }
  ~RecordScope() {
    if (recorder_ != nullptr) recorder_->ran(action_, from_, again_);
  }
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  Recorder* recorder_;
  program::Action action_;
  bool again_;
  device::Marks::Mark from_ = 0;
};

/// Every rank of the group (a pipeline's ranks, in order) with its recording of one step: the whole
/// step, on every one of them. Times are from each rank's own beginning of the step.
simulate::Simulation gather_step(comm::Channel& channel, std::span<const int> group,
                                 const Recording& mine);

}  // namespace trireme::runtime
