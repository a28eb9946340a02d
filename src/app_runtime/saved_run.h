// A checkpoint of a run that a command names.
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
  config::JobSpec job;  ///< that it was saved by
};

/// Whether `place` is a run's folder or a checkpoint's, not weights.
bool is_saved_run(const std::filesystem::path& place);

/// The newest checkpoint of a run's folder, or the one after `step` steps; a checkpoint's own
/// folder stands for itself. Throws InputError where there is none, and without `step` where the
/// run went on behind the newest one.
SavedRun find_saved_run(const std::filesystem::path& place, std::optional<std::int64_t> step,
                        const model::ModelRegistry& own);

}  // namespace trireme::app
