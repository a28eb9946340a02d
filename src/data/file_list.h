// The files of a data set: patterns expanded, each file once, in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

namespace trireme::data {

/// Sorted by name. A file with several names (symbolic links) counts once, under the name that is
/// no link if that matched, else under the first. Folders that a pattern matches are passed over.
/// Throws InputError: no pattern, a pattern without a file, a plain path that is no file.
std::vector<std::filesystem::path> list_files(const std::vector<std::string>& patterns);

/// Of files, each with the number of its `first` element and in that order, the one that holds
/// element `number`.
template <class File>
auto holding(const std::vector<File>& files, std::int64_t number) {
  return std::prev(
      std::upper_bound(files.begin(), files.end(), number,
                       [](std::int64_t place, const File& file) { return place < file.first; }));
}

}  // namespace trireme::data
