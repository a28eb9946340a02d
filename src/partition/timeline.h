// The step of a pipeline when every pass takes a known time: the simulator's answer without its
// actions, for comparing thousands of cuts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_room.h"

#include "trireme/program/generate.h"

#include <vector>

namespace trireme::partition {

/// Seconds of one micro-batch on a stage.
struct PassTimes {
  double forward = 0;
  double backward = 0;
  double ahead = 0;  ///< of the backward, what runs before the gradient is needed
};

class Timeline {
 public:
  explicit Timeline(const StageRoom& room);

  /// Last layers and times of all stages in, seconds of a step out. Passes run in the schedule's
  /// order; messages go one after the other on the lane of their link and
  /// direction, room in streams is not looked at. O(stages x micro-batches).
  double step(const std::vector<int>& ends, const std::vector<PassTimes>& times);

 private:
  struct Stage {
    std::size_t next = 0;
    double clock = 0;
    double lane_down = 0, lane_up = 0;  ///< when the lanes to the neighbours are free
  };
  /// Runs a stage's passes until one has to wait; whether any ran.
  bool advance(int k, const std::vector<int>& ends, const std::vector<PassTimes>& times);

  const StageRoom& room_;
  program::PassOrder order_;
  std::size_t micro_batches_;
  std::vector<Stage> stages_;
  std::vector<double> inputs_, gradients_;  // arrivals by stage and micro-batch, negative: not yet
};

}  // namespace trireme::partition
