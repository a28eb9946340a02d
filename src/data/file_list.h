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

/// Sorted by name. A file with several names (symbolic links) counts once, under its own name if
/// that matched, else under the first. Folders that match a pattern are ignored. Throws InputError:
/// no pattern, a pattern without a file, a plain path that is not a file.
std::vector<std::filesystem::path> list_files(const std::vector<std::string>& patterns);

/// The file that contains element `number`, of files sorted by the number of their `first` element.
template <class File>
auto holding(const std::vector<File>& files, std::int64_t number) {
  return std::prev(
      std::upper_bound(files.begin(), files.end(), number,
                       [](std::int64_t place, const File& file) { return place < file.first; }));
}

}  // namespace trireme::data
