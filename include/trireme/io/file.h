// Whole-file reads and atomic writes: a reader gets all of a file or an error, a writer leaves the
// old or the new file, never a partial one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::io {

/// The file's bytes, at most `most` of them. Throws InputError that names the file and the reason;
/// a regular file over the limit is refused before any of it is read. Other than regular files,
/// only pipes and the like that this process was given (/dev/stdin, /dev/fd/3) are read; opening
/// never blocks.
std::string read_file(const std::filesystem::path& file, Bytes most = Bytes(std::int64_t{1} << 40));

/// Writes a draft next to the target, flushes it to disk and renames it over the target. Creates
/// missing folders; a symbolic link is followed, and what is not a regular file (a pipe,
/// /dev/stdout) is written to directly. Throws Error.
void write_file(const std::filesystem::path& file, std::string_view content);

/// The same for a file that Trireme owns, in its own folder: a symbolic link or a pipe of that name
/// is replaced, not followed. Throws Error, also for a device.
void write_own_file(const std::filesystem::path& file, std::string_view content);
/// Removes the file, or the link if it is a symbolic link. Throws Error; a missing file is fine.
void remove_own_file(const std::filesystem::path& file);

/// An open descriptor, which the caller closes. Throws InputError, without blocking, where the file
/// cannot be opened or is not a regular file: a pipe, a socket, a device, a folder.
int open_regular(const std::filesystem::path& file);

/// For a path with a ~ or a $VARIABLE that a shell would have expanded: what is wrong and what to
/// write. Nothing where files with a literal $ in their names exist there.
std::optional<std::string> unexpanded(const std::string& path);

/// Removes drafts that a process killed within write_file() or write_own_file() has left of files
/// with these names in the folder.
void remove_drafts(const std::filesystem::path& folder, const std::set<std::string>& names);

/// Throws Error where write_file() would, as far as can be told without writing, so that a command
/// that takes minutes can check before it begins. Nothing is checked for an empty path.
void require_writable(const std::filesystem::path& file);

/// An option that names the same file as an earlier one, and the reason to print.
struct Clash {
  std::string option, reason;
};

/// Finds the first such option. `files` pairs options with their files, empty where there is none;
/// different paths to one file count as the same. A pipe or /dev/null may be shared.
std::optional<Clash> find_clash(const std::vector<std::pair<std::string, std::string>>& files);

/// Flushes `out`, which the message calls `name`. Throws Error where the output was not written.
void require_written(std::ostream& out, const std::string& name);

/// Existing files (no folders) that match a shell pattern (`*`, `?`, `[..]` in any component),
/// sorted; a path without such characters, or one that exists as written, stands for itself.
std::vector<std::filesystem::path> expand(const std::string& pattern);

}  // namespace trireme::io
