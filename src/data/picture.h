// Decoded images, and how they are brought to the size that a model takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace trireme::data {

/// Values 0..255, one channel after the other, row by row.
struct Picture {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<std::uint8_t> values;

  std::int64_t size() const { return channels * height * width; }
};

/// The largest side and the most pixels that are decoded; more is taken for a broken file.
inline constexpr std::int64_t kMostSide = 1 << 16;
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

/// PNM (P5, P6), PNG or JPEG, told apart by their first bytes: 1 channel or 3. Alpha is composed on
/// white; what a JPEG says about turning it is not followed. Throws InputError that names the file
/// and what is wrong: no image, truncated, damaged, a format that this build cannot read.
Picture decode(const std::filesystem::path& file);

/// Resized so that it just covers `height` x `width`, cropped at the centre, gray or colour as
/// `channels` (1 or 3, or the picture's own) says. Smaller pictures are interpolated, larger ones
/// averaged: the filter is a triangle as wide as two source pixels, or two target ones.
Picture fitted(const Picture& picture, std::int64_t channels, std::int64_t height,
               std::int64_t width);

/// One format each; `bytes` are the whole file, `name` is for errors.
Picture decode_pnm(std::span<const std::byte> bytes, std::string_view name);
Picture decode_png(std::span<const std::byte> bytes, std::string_view name);
Picture decode_jpeg(std::span<const std::byte> bytes, std::string_view name);

/// Throws InputError unless the sizes are those of an image that can be decoded.
void require_size(std::int64_t width, std::int64_t height, std::string_view name);

/// From pixels whose channels follow each other.
Picture from_interleaved(std::span<const std::uint8_t> pixels, std::int64_t channels,
                         std::int64_t height, std::int64_t width);

}  // namespace trireme::data
