// Portable anymaps in their binary forms: P5 (gray) and P6 (colour), with 8 or 16 bits per value.
// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <string>

namespace trireme::data {
namespace {

/// The numbers of a header: text, with comments from # to the end of the line.
class Header {
 public:
  Header(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  std::int64_t number(std::string_view what, std::int64_t most) {
    skip_space();
    std::int64_t value = 0;
    bool is_number = false;
    for (; is_digit(here()) && value <= most; ++place_, is_number = true)
      value = 10 * value + (here() - '0');
    if (!is_number || value < 1 || value > most)
      throw InputError(concat(name_, ": the header's ", what, " is not a number from 1 to ", most));
    return value;
  }

  /// What follows the single white space that ends the header.
  std::span<const std::byte> rest() const {
    return bytes_.subspan(std::min(place_ + 1, bytes_.size()));
  }

 private:
  static bool is_digit(int c) { return c >= '0' && c <= '9'; }
  static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  /// The current byte; -1 at the end.
  int here() const { return place_ < bytes_.size() ? std::to_integer<int>(bytes_[place_]) : -1; }
  void skip_space() {
    while (is_space(here()) || here() == '#') {
      if (here() == '#') {
        while (here() != '\n' && here() != -1) ++place_;
      } else {
        ++place_;
      }
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view name_;
  std::size_t place_ = 2;  // after P5 or P6
};

}  // namespace

Picture decode_pnm(std::span<const std::byte> bytes, std::string_view name) {
  const std::int64_t channels = bytes[1] == std::byte{'6'} ? 3 : 1;
  Header header(bytes, name);
  const std::int64_t width = header.number("width", kMostSide);
  const std::int64_t height = header.number("height", kMostSide);
  const std::int64_t most = header.number("largest value", 65535);
  require_size(width, height, name);
  const std::int64_t width_of_value = most > 255 ? 2 : 1;
  const std::span<const std::byte> rest = header.rest();
  const std::int64_t count = channels * height * width;
  if (static_cast<std::int64_t>(rest.size()) < count * width_of_value)
    throw InputError(concat(name, ": is truncated: ", rest.size(), " bytes of pixels, must be ",
                            count * width_of_value));
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const auto value = width_of_value == 1 ? std::to_integer<std::int64_t>(rest[i])
                                           : std::to_integer<std::int64_t>(rest[2 * i]) * 256 +
                                                 std::to_integer<std::int64_t>(rest[2 * i + 1]);
    pixels[i] = static_cast<std::uint8_t>((std::min(value, most) * 255 + most / 2) / most);
  }
  return from_interleaved(pixels, channels, height, width);
}

}  // namespace trireme::data
