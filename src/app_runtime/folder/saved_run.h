// Finds the checkpoint of a run that a command names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/chain.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme::app {

struct SavedRun {
  std::filesystem::path checkpoint;
  config::JobSpec job;  ///< the job that saved it
};

/// Whether `place` is the folder of a run or of a checkpoint, rather than of weights.
bool is_saved_run(const std::filesystem::path& place);

/// The newest checkpoint of a run's folder, or the one after `step` steps; `place` may be a
/// checkpoint's own folder. Throws InputError where there is none, and without `step` where the run
/// has trained beyond the newest one.
SavedRun find_saved_run(const std::filesystem::path& place, std::optional<std::int64_t> step,
                        const model::ModelRegistry& own);

}  // namespace trireme::app
