// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include "memory/rank.h"
#include "values/lookup.h"

#include "trireme/core/error.h"
#include "trireme/schedule/order.h"

#include <algorithm>

namespace trireme::partition {
namespace {

using schedule::Pass;

/// Checkpoints in a step at which the computation may be abandoned.
constexpr std::size_t kParts = 16;
/// Relative rounding error of sums of the same times in another order.
constexpr double kRounding = 1e-9;

}  // namespace

Timeline::Timeline(const StageRoom& room)
    : room_(room),
      micro_batches_(at(room.question().micro_batches)),
      stages_(at(room.stages())),
      inputs_(stages_.size() * micro_batches_),
      gradients_(inputs_) {
  order_turns();
}

// Interleaves the stages pass by pass, so that a processor finds independent passes next to each
// other.
void Timeline::order_turns() {
  const schedule::Order order = order_of(room_.question(), room_.stages());
  const std::size_t count = stages_.size(), all = 2 * count * micro_batches_;
  std::vector<Left> left(count,
                         Left{room_.question().micro_batches, room_.question().micro_batches});
  std::vector<std::size_t> next(count, 0);
  std::vector<bool> has_input(inputs_.size(), false), has_gradient(inputs_.size(), false);
  std::fill_n(has_input.begin(), micro_batches_, true);
  while (turns_.size() < all) {
    const std::size_t before = turns_.size();
    for (std::size_t k = 0; k < count; ++k) {
      if (next[k] == order[k].size()) continue;
      const Pass& pass = order[k][next[k]];
      const bool is_forward = pass.kind == Pass::Kind::kForward;
      const Left& passes = left[k];
      const std::size_t place =
          (k + 1) * micro_batches_ - at(is_forward ? passes.forwards : passes.backwards);
      if (!(is_forward ? has_input : has_gradient)[place]) continue;
      while (left_.size() < kParts && turns_.size() >= left_.size() * all / kParts)
        left_.push_back(left);
      turns_.push_back({k, place, is_forward});
      ++next[k];
      --(is_forward ? left[k].forwards : left[k].backwards);
      if (!is_forward) {
        if (k > 0) has_gradient[place - micro_batches_] = true;
      } else if (k + 1 < count) {
        has_input[place + micro_batches_] = true;
      } else {
        has_gradient[place] = true;
      }
    }
    ensure(turns_.size() > before, "a schedule's passes do not wait for one another in a circle");
  }
}

Seconds Timeline::step(const std::vector<int>& ends, const std::vector<PassTimes>& times,
                       Seconds enough) {
  set_up(ends, times);
  const Seconds hopeless = enough * (1 + kRounding);
  for (std::size_t part = 0; part < left_.size(); ++part) {
    if (const Seconds sure = least(left_[part]); sure > hopeless) return sure;
    const std::size_t all = turns_.size(), end = (part + 1) * all / kParts;
    for (std::size_t i = part * all / kParts; i < end; ++i) take(turns_[i]);
  }
  Seconds step;
  for (const Stage& stage : stages_) step = std::max(step, stage.clock);
  return step;
}

void Timeline::set_up(const std::vector<int>& ends, const std::vector<PassTimes>& times) {
  Seconds drain, fill;
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    const int stage = static_cast<int>(k);
    const bool is_last = k + 1 == stages_.size();
    const Seconds transfer = is_last ? Seconds(0) : room_.transfer(stage, ends[k]);
    const Seconds latency = is_last ? Seconds(0) : room_.latency(stage);
    stages_[k] = {
        .times = times[k], .transfer = transfer, .latency = latency, .drain = drain, .clock = fill};
    fill = fill + times[k].forward + transfer + latency;  // in the order of take()
    drain += transfer + latency + times[k].backward - times[k].ahead;
  }
}

void Timeline::take(const Turn& turn) {
  Stage& stage = stages_[turn.stage];
  if (turn.is_forward) {
    stage.clock = std::max(stage.clock, inputs_[turn.place]) + stage.times.forward;
    if (turn.stage + 1 == stages_.size()) {
      gradients_[turn.place] = stage.clock;
    } else {
      stage.lane_down = std::max(stage.lane_down, stage.clock) + stage.transfer;
      inputs_[turn.place + micro_batches_] = stage.lane_down + stage.latency;
    }
  } else {
    const PassTimes& taken = stage.times;
    stage.clock =
        std::max(stage.clock + taken.ahead, gradients_[turn.place]) + taken.backward - taken.ahead;
    if (turn.stage > 0) {
      Stage& before = stages_[turn.stage - 1];
      before.lane_up = std::max(before.lane_up, stage.clock) + before.transfer;
      gradients_[turn.place - micro_batches_] = before.lane_up + before.latency;
    }
  }
}

Seconds Timeline::least(const std::vector<Left>& left) const {
  Seconds step;
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    const Stage& stage = stages_[k];
    const Seconds own =
        left[k].forwards * stage.times.forward + left[k].backwards * stage.times.backward;
    step = std::max(step, stage.clock + own + stage.drain);
  }
  return step;
}

}  // namespace trireme::partition
