// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include "mapped_file.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace trireme::data {
namespace {

/// Filter of a target pixel along one axis: weights of source pixels first, first + 1, ...
struct Taps {
  std::int64_t first = 0;
  std::vector<std::int64_t> weights;
  std::int64_t sum = 0;
};

/// Taps of every target pixel; the target covers the middle `shown` source pixels of `length`.
std::vector<Taps> taps(std::int64_t length, double shown, std::int64_t target);
/// Resizes one channel, along rows and then along columns.
void resize(const std::uint8_t* from, std::int64_t from_width, const std::vector<Taps>& rows,
            const std::vector<Taps>& columns, std::uint8_t* to);
/// Gray to colour or colour to gray.
Picture with_channels(const Picture& picture, std::int64_t channels);

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

Picture decode(const std::filesystem::path& file) {
  const MappedFile map(file);
  const std::string name = file.string();
  const std::span<const std::byte> bytes = map.bytes();
  if (begins_with(bytes, "P5") || begins_with(bytes, "P6")) return decode_pnm(bytes, name);
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return decode_png(bytes, name);
  if (begins_with(bytes, "\xff\xd8\xff")) return decode_jpeg(bytes, name);
  throw InputError(concat(name,
                          ": is no image that can be read: must be PNM (P5 or P6), PNG or "
                          "JPEG"));
}

Picture fitted(const Picture& picture, std::int64_t channels, std::int64_t height,
               std::int64_t width) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  // Source pixels per target pixel, the same along both axes.
  const double scale =
      std::min(static_cast<double>(picture.height) / h, static_cast<double>(picture.width) / w);
  const std::vector<Taps> rows = taps(picture.height, h * scale, height);
  const std::vector<Taps> columns = taps(picture.width, w * scale, width);
  Picture result{.channels = picture.channels, .height = height, .width = width, .values = {}};
  result.values.resize(static_cast<std::size_t>(result.size()));
  for (std::int64_t c = 0; c < picture.channels; ++c) {
    resize(picture.values.data() + c * picture.height * picture.width, picture.width, rows, columns,
           result.values.data() + c * height * width);
  }
  return with_channels(result, channels);
}

void require_size(std::int64_t width, std::int64_t height, std::string_view name) {
  if (width >= 1 && height >= 1 && width <= kMostSide && height <= kMostSide &&
      width * height <= kMostPixels)
    return;
  throw InputError(concat(name, ": says that it is ", width, " x ", height,
                          " pixels: must be at least 1 x 1, at most ", kMostSide, " on a side and ",
                          kMostPixels, " in all"));
}

Picture from_interleaved(std::span<const std::uint8_t> pixels, std::int64_t channels,
                         std::int64_t height, std::int64_t width) {
  Picture picture{.channels = channels, .height = height, .width = width, .values = {}};
  picture.values.resize(static_cast<std::size_t>(picture.size()));
  auto* to = picture.values.data();
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t i = 0; i < height * width; ++i)
      *to++ = pixels[static_cast<std::size_t>(i * channels + c)];
  }
  return picture;
}

namespace {

std::vector<Taps> taps(std::int64_t length, double shown, std::int64_t target) {
  constexpr double kOne = 1 << 16;
  const double scale = shown / static_cast<double>(target);
  const double reach = std::max(scale, 1.0);
  const double start = (static_cast<double>(length) - shown) / 2;
  std::vector<Taps> all(static_cast<std::size_t>(target));
  for (std::int64_t t = 0; t < target; ++t) {
    // Pixel k covers k..k+1; its middle is k + 1/2.
    const double middle = start + (static_cast<double>(t) + 0.5) * scale;
    const auto first = static_cast<std::int64_t>(std::floor(middle - reach));
    const auto last = static_cast<std::int64_t>(std::ceil(middle + reach));
    Taps& tap = all[static_cast<std::size_t>(t)];
    tap.first = std::max<std::int64_t>(first, 0);
    for (std::int64_t k = tap.first; k <= std::min(last, length - 1); ++k) {
      const double distance = std::abs(static_cast<double>(k) + 0.5 - middle) / reach;
      tap.weights.push_back(std::llround(kOne * std::max(0.0, 1 - distance)));
      tap.sum += tap.weights.back();
    }
  }
  return all;
}

/// The rounded weighted mean of a tap's values, which are `stride` apart.
std::uint8_t mean(const std::uint8_t* from, std::int64_t stride, const Taps& tap) {
  std::int64_t sum = tap.sum / 2;
  const std::uint8_t* value = from + tap.first * stride;
  for (const std::int64_t weight : tap.weights) {
    sum += weight * *value;
    value += stride;
  }
  return static_cast<std::uint8_t>(sum / tap.sum);
}

void resize(const std::uint8_t* from, std::int64_t from_width, const std::vector<Taps>& rows,
            const std::vector<Taps>& columns, std::uint8_t* to) {
  const auto width = static_cast<std::int64_t>(columns.size());
  const std::int64_t top = rows.front().first;
  const std::int64_t bottom =
      rows.back().first + static_cast<std::int64_t>(rows.back().weights.size());
  std::vector<std::uint8_t> narrowed(static_cast<std::size_t>(bottom * width));
  for (std::int64_t y = top; y < bottom; ++y) {
    for (std::int64_t x = 0; x < width; ++x)
      narrowed[static_cast<std::size_t>(y * width + x)] =
          mean(from + y * from_width, 1, columns[static_cast<std::size_t>(x)]);
  }
  for (const Taps& row : rows) {
    for (std::int64_t x = 0; x < width; ++x) *to++ = mean(narrowed.data() + x, width, row);
  }
}

Picture with_channels(const Picture& picture, std::int64_t channels) {
  if (channels == picture.channels) return picture;
  const auto plane = static_cast<std::size_t>(picture.height * picture.width);
  Picture result{
      .channels = channels, .height = picture.height, .width = picture.width, .values = {}};
  if (picture.channels == 1) {
    for (std::int64_t c = 0; c < channels; ++c)
      result.values.insert(result.values.end(), picture.values.begin(), picture.values.end());
    return result;
  }
  // Luma of ITU-R BT.601.
  constexpr std::array<unsigned, 3> kShare{299, 587, 114};
  result.values.resize(plane);
  for (std::size_t i = 0; i < plane; ++i) {
    unsigned sum = 500;
    for (std::size_t c = 0; c < kShare.size(); ++c)
      sum += kShare[c] * picture.values[c * plane + i];
    result.values[i] = static_cast<std::uint8_t>(sum / 1000);
  }
  return result;
}

}  // namespace
}  // namespace trireme::data
