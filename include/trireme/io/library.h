// Shared libraries of our own that lie next to this code and are loaded when a job needs them: a
// process that needs none does without what they link.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace trireme::io {

/// The file that holds this code: the executable, or the shared library that it was linked into.
std::filesystem::path own_file();

/// What to do where a library cannot be used.
struct LibraryHelp {
  std::string if_missing;
  std::string if_not_loadable;
};

/// Loads `library`, with what it links, for the rest of the process; returns the address of its
/// function `entry_point`. Throws InputError that says which file is missing or cannot be loaded
/// (with the loader's reason), or is of another build, followed by the help for that.
void* load_entry_point(const std::filesystem::path& library, const std::string& entry_point,
                       const LibraryHelp& help);

}  // namespace trireme::io
