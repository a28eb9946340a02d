// Packs image files into one file, which is memory-mapped instead of decoded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trireme::data {

struct PackedCounts {
  std::int64_t images = 0;
  std::int64_t classes = 0;
};

/// Writes the images that match `patterns`, with the pixels and classes that `open_dataset` gives
/// them for a model of `channels` (1 or 3) x `side` x `side`, as a packed file (docs/models.md).
/// The output is written atomically. Throws InputError with file and reason; Error if it cannot be
/// written or `is_stopped` returns true between two images.
PackedCounts pack_images(const std::vector<std::string>& patterns, std::int64_t channels,
                         std::int64_t side, const std::filesystem::path& output,
                         const std::function<bool()>& is_stopped);

}  // namespace trireme::data
