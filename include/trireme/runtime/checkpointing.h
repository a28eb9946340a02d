// What a run is told about its checkpoints, and what it tells of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme::runtime {

/// A published checkpoint.
struct SavedCheckpoint {
  std::int64_t step = 0;  ///< steps done
  std::filesystem::path folder;
  Bytes size;
  Seconds time{0};  ///< from its beginning until it was published
  Seconds held{0};  ///< part of that in which training stood still
};

/// Where and how a run saves checkpoints, and what it resumes from.
struct Checkpointing {
  std::filesystem::path folder;  ///< holds all of a run's checkpoints; seen by every rank
  int every = 0;                 ///< steps between two, and one at the end; 0: none
  int keep = 2;                  ///< number of newest ones to keep
  bool in_background = false;    ///< the state is copied, and written while training goes on
  std::string job;               ///< resolved, as YAML; saved with the state
  std::string data;              ///< digest of the data set; likewise
  std::optional<std::filesystem::path> resume = {};  ///< a checkpoint to resume from
};

}  // namespace trireme::runtime
