// What the steps of a run come to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/runtime/trainer.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::runtime {

/// A mean, and of how many values it is.
struct Mean {
  double value = 0;
  std::int64_t count = 0;
};

/// The mean of the last `count` values, of all where there are fewer; 0 where there is none.
Mean mean_of_last(const std::vector<double>& values, int count);

/// 1 - what the ranks compute / (ranks x step), at least 0; 0 where no step was made.
double bubble_of(const std::vector<RankFigures>& ranks, Seconds step);

/// Places of steps among those of a run.
struct TypicalSteps {
  std::size_t median = 0;    ///< took the median time
  std::size_t recorded = 0;  ///< that of the recorded steps whose time is nearest to it
};

/// Every rank, with the places of the `recorded` steps, at least one where a step was made: the
/// typical steps by the times of rank 0, the same on all ranks, so that a step's parts add up on
/// each; nothing where no step was made.
std::optional<TypicalSteps> typical_steps(comm::Channel& channel,
                                          const std::vector<double>& seconds,
                                          const std::vector<std::size_t>& recorded);

/// The first loss, or gradient before clipping, that is no number: "the loss of step 4"; nothing
/// where all are.
std::optional<std::string> first_lost(const std::vector<StepRecord>& steps);

/// Throws Error: that of a run in which `lost` is no number any more.
[[noreturn]] void refuse_to_go_on(const std::string& lost);

/// "a value of parameters/head/weight after step 3 (nan at place 17)".
std::string lost_value(const std::string& tensor, std::int64_t step, const std::string& found);
/// Every rank: the same where a rank has a lost_value(), or whatever is lost; empty: it has none.
void refuse_lost_values(comm::Channel& channel, const std::string& mine);

}  // namespace trireme::runtime
