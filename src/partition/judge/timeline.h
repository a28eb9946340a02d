// The step of a pipeline when every pass takes a known time: the simulator's answer without its
// actions, for comparing thousands of cuts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_room.h"

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

  /// Last layers and times of all stages in, seconds of a step out; where that is certain to be
  /// more than `enough`, only some number above it. Passes run in the schedule's order; messages go
  /// one after the other on the lane of their link and direction, room in streams is not looked at.
  /// O(stages x micro-batches).
  double step(const std::vector<int>& ends, const std::vector<PassTimes>& times,
              double enough = kNever);

 private:
  struct Turn {
    std::size_t stage = 0;
    std::size_t place = 0;  ///< of its stage and micro-batch among arrivals
    bool is_forward = true;
  };
  /// Passes that a stage has not run yet.
  struct Left {
    int forwards = 0, backwards = 0;
  };
  struct Stage {
    PassTimes times;
    double transfer = 0, latency = 0;  ///< to the next stage
    double drain = 0;  ///< least time from its last backward to that of the first stage
    double clock = 0;
    double lane_down = 0, lane_up = 0;  ///< when the lanes to the next and from it are free
  };
  void order_turns();
  void set_up(const std::vector<int>& ends, const std::vector<PassTimes>& times);
  void take(const Turn& turn);
  /// What the step takes at the least, with `left` still to be run.
  double least(const std::vector<Left>& left) const;

  const StageRoom& room_;
  std::size_t micro_batches_;
  /// All passes, each after what it waits for, whatever they take.
  std::vector<Turn> turns_;
  /// What is left before some of them, evenly spread, the first among them.
  std::vector<std::vector<Left>> left_;
  std::vector<Stage> stages_;
  std::vector<double> inputs_, gradients_;  // arrivals by stage and micro-batch
};

}  // namespace trireme::partition
