// Plans with several chunks on every rank, beside named schedules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace trireme::partition {

/// Prints a row for each case; `configs` has chains and platforms.
int compare_schedules(const std::filesystem::path& configs);

}  // namespace trireme::partition
