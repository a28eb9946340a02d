// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include "judge.h"

#include <algorithm>

namespace trireme::partition {

using program::Pass;

Timeline::Timeline(const StageRoom& room)
    : room_(room), micro_batches_(static_cast<std::size_t>(room.question().micro_batches)) {
  const Question& question = room.question();
  std::vector<int> counts;
  for (int k = 0; k < room.stages(); ++k) counts.push_back(in_flight(question, k));
  order_ = question.schedule == "gpipe" ? program::gpipe({room.stages(), question.micro_batches})
                                        : program::one_f_one_b_with(counts, question.micro_batches);
}

double Timeline::step(const std::vector<int>& ends, const std::vector<PassTimes>& times) {
  constexpr double kNotYet = -1;
  const std::size_t count = ends.size();
  stages_.assign(count, {});
  inputs_.assign(count * micro_batches_, kNotYet);
  gradients_.assign(count * micro_batches_, kNotYet);
  std::fill_n(inputs_.begin(), micro_batches_, 0.0);
  std::vector<int> ready(1, 0);
  while (!ready.empty()) {
    const int k = ready.back();
    ready.pop_back();
    if (!advance(k, ends, times)) continue;
    if (k > 0) ready.push_back(k - 1);
    if (k + 1 < static_cast<int>(count)) ready.push_back(k + 1);
  }
  double step = 0;
  for (const Stage& stage : stages_) step = std::max(step, stage.clock);
  return step;
}

bool Timeline::advance(int k, const std::vector<int>& ends, const std::vector<PassTimes>& times) {
  const auto place = static_cast<std::size_t>(k);
  Stage& stage = stages_[place];
  const std::vector<Pass>& passes = order_[place];
  const bool is_last = place + 1 == ends.size();
  const std::size_t begin = stage.next;
  for (; stage.next < passes.size(); ++stage.next) {
    const Pass& pass = passes[stage.next];
    const std::size_t at = place * micro_batches_ + static_cast<std::size_t>(pass.micro_batch);
    if (pass.kind == Pass::Kind::kForward) {
      if (inputs_[at] < 0) break;
      stage.clock = std::max(stage.clock, inputs_[at]) + times[place].forward;
      if (is_last) {
        gradients_[at] = stage.clock;
      } else {
        stage.lane_down = std::max(stage.lane_down, stage.clock) + room_.transfer(k, ends[place]);
        inputs_[at + micro_batches_] = stage.lane_down + room_.latency(k);
      }
    } else {
      if (gradients_[at] < 0) break;
      const PassTimes& taken = times[place];
      stage.clock =
          std::max(stage.clock + taken.ahead, gradients_[at]) + taken.backward - taken.ahead;
      if (k > 0) {
        stage.lane_up =
            std::max(stage.lane_up, stage.clock) + room_.transfer(k - 1, ends[place - 1]);
        gradients_[at - micro_batches_] = stage.lane_up + room_.latency(k - 1);
      }
    }
  }
  return stage.next > begin;
}

}  // namespace trireme::partition
