// Why a run has ended before its last step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/record/summary.h"

#include <cstdint>
#include <exception>

namespace trireme::app {

/// Where a run was when it ended.
struct Place {
  std::int64_t step = 0;   ///< that it was in, or was in last, from 1; 0: in none yet
  std::int64_t told = 0;   ///< steps whose losses are known
  std::int64_t steps = 0;  ///< of the whole run
};

/// Stopped, diverged or failed, as `error` says, which has ended it.
record::EarlyEnd early_end(const std::exception& error, const Place& place);

}  // namespace trireme::app
