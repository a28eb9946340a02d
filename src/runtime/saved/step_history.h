// Statistics of the steps of a run, and the check that its numbers are finite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/record/metrics.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::runtime {

/// A mean, and the number of its values.
struct Mean {
  double value = 0;
  std::int64_t count = 0;
};

/// The mean of the last `count` values, of all where there are fewer; 0 where there is none.
Mean mean_of_last(const std::vector<double>& values, int count);

/// Indices of steps among those of a run.
struct TypicalSteps {
  std::size_t median = 0;    ///< took the median time
  std::size_t recorded = 0;  ///< the recorded step whose time is nearest to it
};

/// Collective, with the indices of the `recorded` steps, at least one if a step was made: the
/// typical steps by the times of rank 0, the same on all ranks, so that a step's parts add up on
/// each; nothing if no step was made.
std::optional<TypicalSteps> typical_steps(comm::Channel& channel,
                                          const std::vector<double>& seconds,
                                          const std::vector<std::size_t>& recorded);

/// The first loss, or gradient norm before clipping, that is not finite: "the loss of step 4";
/// nothing if all are finite.
std::optional<std::string> first_lost(const std::vector<record::StepMetrics>& steps);

/// Throws the Error of a run in which `lost` is no longer finite.
[[noreturn]] void refuse_to_go_on(const std::string& lost);

/// "a value of parameters/head/weight after step 3 (nan at index 17)".
std::string lost_value(const std::string& tensor, std::int64_t step, const std::string& found);
/// Collective: throws that Error if some rank has a lost value, `mine` on this rank; empty: none.
void refuse_lost_values(comm::Channel& channel, const std::string& mine);

}  // namespace trireme::runtime
