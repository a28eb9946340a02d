// SPDX-License-Identifier: Apache-2.0
#include "step_history.h"

#include "trireme/comm/channel.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace trireme::runtime {

double mean_of_last(const std::vector<double>& values, int count) {
  const std::size_t used = std::min(values.size(), static_cast<std::size_t>(std::max(1, count)));
  double sum = 0;
  for (std::size_t i = values.size() - used; i < values.size(); ++i) sum += values[i];
  return used == 0 ? 0 : sum / static_cast<double>(used);
}

std::optional<std::size_t> median_step(comm::Channel& channel, const std::vector<double>& seconds) {
  std::vector<std::size_t> by_length(seconds.size());
  std::iota(by_length.begin(), by_length.end(), 0);
  std::sort(by_length.begin(), by_length.end(),
            [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  const std::string mine = by_length.empty() ? "" : std::to_string(by_length[by_length.size() / 2]);
  const std::string step =
      comm::broadcast(channel, comm::everyone(channel), mine, "the median step");
  return step.empty() ? std::nullopt : std::optional<std::size_t>(std::stoul(step));
}

std::optional<std::string> first_lost(const std::vector<StepRecord>& steps) {
  for (const StepRecord& one : steps) {
    if (!std::isfinite(one.loss)) return concat("the loss of step ", one.step);
    // The loss was there before the update that this gradient has spoilt.
    if (!std::isfinite(one.gradient_norm.value_or(0)))
      return concat("the gradient of step ", one.step);
  }
  return std::nullopt;
}

void refuse_to_go_on(const std::string& lost) {
  throw Error(concat(lost,
                     " is no number: the run has diverged, and no later checkpoint is written; go "
                     "on from an earlier one, or begin anew, with a smaller "
                     "train.optimizer.learning_rate, more train.schedule.warmup_steps or a smaller "
                     "train.clip_norm (0 clips nothing)"));
}

std::string lost_value(const std::string& tensor, std::int64_t step, const std::string& found) {
  return concat("a value of ", tensor, " after step ", step, " (", found, ")");
}

void refuse_lost_values(comm::Channel& channel, const std::string& mine) {
  for (const std::string& lost :
       comm::all_gather(channel, comm::everyone(channel), mine, "values that are no numbers"))
    if (!lost.empty()) refuse_to_go_on(lost);
}

}  // namespace trireme::runtime
