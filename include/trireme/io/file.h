// Files as wholes: a reader gets all of it or an error, a writer leaves the old or the new file,
// never half of one. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::io {

/// The file's bytes. Throws InputError that names the file and the reason.
std::string read_file(const std::filesystem::path& file);

/// Writes beside the target, flushes to disk, renames over it. Creates missing folders. Throws
/// Error.
void write_file(const std::filesystem::path& file, std::string_view content);

/// Existing files that match a shell pattern (`*`, `?`, `[..]` in any component), sorted; a plain
/// path stands for itself whether or not it exists.
std::vector<std::filesystem::path> expand(const std::string& pattern);

}  // namespace trireme::io
