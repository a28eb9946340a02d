// SPDX-License-Identifier: Apache-2.0
#include "saved/step_history.h"

#include "trireme/comm/channel.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/divergence.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>

namespace trireme::runtime {
namespace {

/// In the message, between what is not finite and what to do.
constexpr std::string_view kDiverged = " is not finite: the run has diverged";

}  // namespace

Mean mean_of_last(const std::vector<double>& values, int count) {
  const std::size_t used = std::min(values.size(), static_cast<std::size_t>(std::max(1, count)));
  double sum = 0;
  for (std::size_t i = values.size() - used; i < values.size(); ++i) sum += values[i];
  if (used == 0) return {};
  return {.value = sum / static_cast<double>(used), .count = static_cast<std::int64_t>(used)};
}

std::optional<TypicalSteps> typical_steps(comm::Channel& channel,
                                          const std::vector<double>& seconds,
                                          const std::vector<std::size_t>& recorded) {
  if (seconds.empty()) return std::nullopt;
  ensure(!recorded.empty(), "some step of a run is recorded");
  std::vector<std::size_t> by_length(seconds.size());
  std::iota(by_length.begin(), by_length.end(), 0);
  std::sort(by_length.begin(), by_length.end(),
            [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  TypicalSteps mine{.median = by_length[by_length.size() / 2]};
  const auto distance = [&](std::size_t step) {
    return std::abs(seconds[step] - seconds[mine.median]);
  };
  mine.recorded =
      *std::min_element(recorded.begin(), recorded.end(),
                        [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
  return comm::all_gather(channel, comm::everyone(channel), std::vector{mine}, "typical steps")
      .at(0)
      .at(0);
}

std::optional<std::string> first_lost(const std::vector<record::StepMetrics>& steps) {
  for (const record::StepMetrics& one : steps) {
    if (!std::isfinite(one.loss)) return concat("the loss of step ", one.step);
    // The loss was computed before the update that this gradient has spoilt.
    if (!std::isfinite(one.gradient_norm.value_or(0)))
      return concat("the gradient of step ", one.step);
  }
  return std::nullopt;
}

void refuse_to_go_on(const std::string& lost) {
  throw Error(concat(lost, kDiverged,
                     ", and no later checkpoint is written; go "
                     "on from an earlier one, or start again, with a smaller "
                     "train.optimizer.learning_rate, more train.schedule.warmup_steps or a smaller "
                     "train.clip_norm (0 clips nothing)"));
}

std::optional<Divergence> divergence_in(std::string_view words) {
  const std::size_t end = words.find(kDiverged);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view lost = words.substr(0, end);
  // The prefix of another rank's report: "rank 1 failed: ".
  if (const std::size_t told = lost.rfind(": "); told != std::string_view::npos)
    lost.remove_prefix(told + 2);
  Divergence found{.what = std::string(lost)};
  for (const std::string_view place : {" of step ", " after step "}) {
    const std::size_t begin = lost.rfind(place);
    if (begin == std::string_view::npos) continue;
    const char* const number = lost.data() + begin + place.size();
    const char* const rest = std::from_chars(number, lost.data() + lost.size(), found.step).ptr;
    found.what =
        concat(lost.substr(0, begin), lost.substr(static_cast<std::size_t>(rest - lost.data())));
    break;
  }
  return found;
}

std::string lost_value(const std::string& tensor, std::int64_t step, const std::string& found) {
  return concat("a value of ", tensor, " after step ", step, " (", found, ")");
}

void refuse_lost_values(comm::Channel& channel, const std::string& mine) {
  for (const std::string& lost :
       comm::all_gather(channel, comm::everyone(channel), mine, "values that are not finite"))
    if (!lost.empty()) refuse_to_go_on(lost);
}

}  // namespace trireme::runtime
