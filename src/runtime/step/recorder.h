// Measured events and memory of one rank's step, in the form in which they were predicted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/core/units.h"
#include "trireme/device/marks.h"
#include "trireme/program/action.h"
#include "trireme/simulate/simulate.h"
#include "trireme/tier/copy_lane.h"
#include "trireme/tier/device_memory.h"

#include <chrono>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// One rank's measured step.
struct Recording {
  /// Totals of the run that no single event tells: waits may lie within an action, and optimizer
  /// state is streamed within the update.
  struct Totals {
    Seconds busy{0}, recompute{0}, wait_for_ranks{0}, wait_for_copies{0};
    Seconds state_out{0}, state_in{0};  ///< time of the copies
    Bytes moved, state_moved, weights_moved;
    simulate::OffloadRoom offloaded;
    Seconds end{0};  ///< end of the run
  };

  std::vector<simulate::Event> events;
  std::vector<simulate::MemoryPoint> curve;
  Totals totals;
};

/// Records when actions ran and how many bytes were held. Costs some 100 ns per action.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;

  Recorder(int rank, tier::DeviceMemory& memory) : rank_(rank), memory_(memory) {}

  /// A run begins now, timed by `marks`; any earlier recording is discarded.
  void begin(device::Marks& marks);
  device::Marks::Mark now() { return marks_->set(); }
  /// An action ran from `from` until now; `again`: a forward that is a recomputation.
  void ran(const program::Action& action, device::Marks::Mark from, bool again);
  /// To be called once, before copies(): the marks have settled, so that times are known.
  void settle();
  /// The lane's copies, in the order in which they were named.
  void copies(simulate::Lane lane, const std::deque<tier::CopyLane::Span>& spans);

  /// The run ends now; sets totals.end.
  void ended(const Recording::Totals& totals);

  /// Returns the recording of the run that has ended.
  Recording take() { return std::exchange(run_, {}); }

 private:
  struct Interval {
    device::Marks::Mark from, to;
  };
  /// Notes a copy that the action begins, whose times copies() tells.
  void name_copy(const program::Action& action);
  Seconds since_begin(Clock::time_point time) const;
  void point(device::Marks::Mark time, Bytes held);

  int rank_;
  tier::DeviceMemory& memory_;
  device::Marks* marks_ = nullptr;
  device::Marks::Mark begin_ = 0;
  std::vector<Interval> times_;              ///< by event of the run
  std::vector<device::Marks::Mark> points_;  ///< by point of the run's curve
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

/// Collective over `group` (a pipeline's ranks, in order): merges the ranks' recordings of one step
/// into the whole step, on every rank. Times are from each rank's own beginning of the step.
simulate::Simulation gather_step(comm::Channel& channel, std::span<const int> group,
                                 const Recording& mine);

}  // namespace trireme::runtime
