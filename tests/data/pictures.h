// Small image files for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/data/dataset.h"
#include "trireme/io/file.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme::data {

/// A gray image (P5) of one value.
inline void write_gray(const std::filesystem::path& file, int value, int width = 4,
                       int height = 4) {
  io::write_file(
      file, "P5\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n" +
                std::string(static_cast<std::size_t>(width * height), static_cast<char>(value)));
}

inline ExampleShape image_shape(std::int64_t channels, std::int64_t height, std::int64_t width,
                                std::int64_t classes) {
  return {.input = "images",
          .inputs = channels * height * width,
          .classes = classes,
          .channels = channels,
          .height = height,
          .width = width};
}

inline config::DataSpec images(const std::filesystem::path& pattern, double validation = 0) {
  return {.kind = "images", .files = {pattern.string()}, .validation_fraction = validation};
}

}  // namespace trireme::data
