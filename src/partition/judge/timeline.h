// Step time of a pipeline from known pass times: the simulator without its actions, for comparing
// thousands of cuts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_room.h"

#include <vector>

namespace trireme::partition {

/// Times of one micro-batch on a stage.
struct PassTimes {
  Seconds forward, backward;
  Seconds ahead;  ///< part of the backward that runs before the gradient arrives
};

class Timeline {
 public:
  explicit Timeline(const StageRoom& room);

  /// Step time from the last layers and pass times of all stages; some larger number
  /// where it is certain to exceed `enough`. Passes run in the schedule's order; messages queue on
  /// the lane of their link and direction; the capacity of streams is ignored. O(stages x
  /// micro-batches).
  Seconds step(const std::vector<int>& ends, const std::vector<PassTimes>& times,
               Seconds enough = kNever);

 private:
  struct Turn {
    std::size_t stage = 0;
    std::size_t place = 0;  ///< index of its stage and micro-batch in the arrivals
    bool is_forward = true;
  };
  /// Passes that a stage has not run yet.
  struct Left {
    int forwards = 0, backwards = 0;
  };
  struct Stage {
    PassTimes times;
    Seconds transfer, latency;  ///< to the next stage
    Seconds drain;              ///< least time from its last backward to the first stage's
    Seconds clock;
    Seconds lane_down, lane_up;  ///< when the lanes to and from the next stage are free
  };
  void order_turns();
  void set_up(const std::vector<int>& ends, const std::vector<PassTimes>& times);
  void take(const Turn& turn);
  /// Lower bound on the step with `left` still to run.
  Seconds least(const std::vector<Left>& left) const;

  const StageRoom& room_;
  std::size_t micro_batches_;
  /// All passes in an order that respects dependencies, for any pass times.
  std::vector<Turn> turns_;
  /// Remaining passes at evenly spread points, including the start.
  std::vector<std::vector<Left>> left_;
  std::vector<Stage> stages_;
  std::vector<Seconds> inputs_, gradients_;  // arrivals by stage and micro-batch
};

}  // namespace trireme::partition
