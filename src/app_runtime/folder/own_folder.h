// Prepares a run's folder: keeps what earlier runs left there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

namespace trireme::app {

/// Throws InputError, about report.directory, where a new run could not take the folder: it holds
/// the working folder or files that the run would overwrite, lies in another run's folder, or the
/// folder, or the new name of an earlier run, cannot be written. Changes nothing.
void require_takeable(const std::filesystem::path& folder);

/// Makes the folder. One that holds an earlier run, or just its checkpoints, is renamed to
/// FOLDER.1, .2, ...; returns that name if so. Links are followed. Throws as require_takeable().
std::optional<std::filesystem::path> prepare_folder(const std::filesystem::path& folder);

}  // namespace trireme::app
