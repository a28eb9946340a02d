// Files as wholes: a reader gets all of it or an error, a writer leaves the old or the new file,
// never half of one.
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
/// a regular file over the limit is refused before anything of it is read. Of all else, only pipes
/// and the like that this process was given are read (/dev/stdin, /dev/fd/3): none is waited for.
std::string read_file(const std::filesystem::path& file, Bytes most = Bytes(std::int64_t{1} << 40));

/// Writes beside the target, flushes to disk, renames over it. Creates missing folders; a symbolic
/// link is followed, and what is no regular file (a pipe, /dev/stdout) is written to directly.
/// Throws Error.
void write_file(const std::filesystem::path& file, std::string_view content);

/// The same for a file that is our own, in a folder of ours: a symbolic link of that name is
/// replaced, not followed, and so is a pipe. Throws Error, also for a device.
void write_own_file(const std::filesystem::path& file, std::string_view content);
/// Throws Error; not where there is none. Of a symbolic link, removes the link.
void remove_own_file(const std::filesystem::path& file);

/// An open descriptor, which the caller closes. Throws InputError, without waiting for anything,
/// where the file cannot be opened or is none that has its bytes at places: a pipe, a socket, a
/// device, a folder.
int open_regular(const std::filesystem::path& file);

/// Of a path with a ~ or a $VARIABLE that a shell would have expanded: what is wrong and what to
/// write. Nothing where its parts with a $ are there under these names.
std::optional<std::string> unexpanded(const std::string& path);

/// Removes what a process that was killed within write_file() or write_own_file() has left of files
/// with these names in the folder.
void remove_drafts(const std::filesystem::path& folder, const std::set<std::string>& names);

/// Throws Error where write_file() would, as far as can be told without writing: a command that
/// takes minutes asks before it begins. Empty: none is to be written.
void require_writable(const std::filesystem::path& file);

/// An option that names a file which an earlier one names, and that in words.
struct Clash {
  std::string option, reason;
};

/// Of options and the files they name, empty where they name none; the same file may have several
/// names. A pipe or /dev/null takes one after the other.
std::optional<Clash> find_clash(const std::vector<std::pair<std::string, std::string>>& files);

/// Throws Error where what was written to `out`, which the message calls `name`, did not arrive.
void require_written(std::ostream& out, const std::string& name);

/// Existing files (no folders) that match a shell pattern (`*`, `?`, `[..]` in any component),
/// sorted; a path without such characters, or one that exists as written, stands for itself.
std::vector<std::filesystem::path> expand(const std::string& pattern);

}  // namespace trireme::io
