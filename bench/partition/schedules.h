// Plans with several chunks on every rank, beside named schedules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace trireme::partition {

/// Prints a row for each case; `configs` has chains and platforms.
int compare_schedules(const std::filesystem::path& configs);

/// Plans every chain whose name has `part` in it on four ranks of every platform (two of a pair),
/// eight micro-batches, with the corpus's budgets: `auto`, one chunk on every rank, and every named
/// schedule. Prints a row for each, then how the steps of `auto` are distributed relative to one
/// chunk and to the best named schedule. Returns 1 if one of them is faster than `auto`.
int compare_named(const std::filesystem::path& configs, const std::string& part);

}  // namespace trireme::partition
