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

/// Of the last `count` values, at least one of them; 0 where there is none.
double mean_of_last(const std::vector<double>& values, int count);

/// Every rank: the place of the step that took the median time on rank 0, the same on all, so that
/// its parts add up on each; nothing where no step was made.
std::optional<std::size_t> median_step(comm::Channel& channel, const std::vector<double>& seconds);

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
