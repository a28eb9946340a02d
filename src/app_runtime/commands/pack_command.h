// `trireme pack-images`: packs image files into one file that is mapped instead of decoded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::app {

struct PackArguments {
  std::vector<std::string> files;  ///< patterns, as in data.files
  std::int64_t side = 0;           ///< pixels
  std::int64_t channels = 3;       ///< 1 or 3
  std::string output;
};

/// Returns the exit code; errors are printed. The output appears as a whole or not at all.
int pack(const PackArguments& arguments);

}  // namespace trireme::app
