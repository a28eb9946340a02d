// Why a run has ended before its last step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/record/summary.h"

#include <cstdint>
#include <exception>

namespace trireme::app {

/// How far a run was when it ended.
struct RunProgress {
  std::int64_t step = 0;   ///< current or last step, from 1; 0: before the first
  std::int64_t told = 0;   ///< steps whose losses are known
  std::int64_t steps = 0;  ///< steps of the whole run
};

/// Whether the run stopped, diverged or failed, judged by `error`, which has ended it.
record::EarlyEnd early_end(const std::exception& error, const RunProgress& progress);

}  // namespace trireme::app
