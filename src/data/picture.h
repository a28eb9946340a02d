// Decoded images, and resizing to the size that a model takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace trireme::data {

/// Values 0..255, channel by channel, row by row.
struct Picture {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<std::uint8_t> values;

  std::int64_t size() const { return channels * height * width; }
};

/// Maximum side and pixels that are decoded; larger images are considered broken.
inline constexpr std::int64_t kMostSide = 1 << 16;
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

/// Decodes PNM (P5, P6), PNG or JPEG, distinguished by their first bytes, to 1 or 3 channels. Alpha
/// is composed on white; a JPEG's orientation tag is ignored. Throws InputError that names the file
/// and the problem: no image, truncated, damaged, a format that this build cannot read.
Picture decode(const std::filesystem::path& file);

/// Resizes to just cover `height` x `width` and crops at the centre, to `channels` channels (1 or
/// 3, or the picture's own). Smaller pictures are interpolated, larger ones averaged: the filter is
/// a triangle as wide as two source pixels, or two target ones.
Picture fitted(const Picture& picture, std::int64_t channels, std::int64_t height,
               std::int64_t width);

/// Decoders of one format each; `bytes` is the whole file, `name` is for errors.
Picture decode_pnm(std::span<const std::byte> bytes, std::string_view name);
Picture decode_png(std::span<const std::byte> bytes, std::string_view name);
Picture decode_jpeg(std::span<const std::byte> bytes, std::string_view name);

/// Throws InputError unless an image of this size can be decoded.
void require_size(std::int64_t width, std::int64_t height, std::string_view name);

/// From interleaved pixels.
Picture from_interleaved(std::span<const std::uint8_t> pixels, std::int64_t channels,
                         std::int64_t height, std::int64_t width);

}  // namespace trireme::data
