// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/sizes.h"

#include "trireme/core/text.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace trireme::io {
namespace {

/// Fewer bytes than this hold no model and no step of one.
constexpr std::int64_t kTooFew = 1 << 16;
/// Numbers up to this one probably mean gigabytes of a device; larger ones megabytes.
constexpr std::int64_t kMostGigabytes = 256;

}  // namespace

std::string size_meant_by(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || !(number > 0)) return "";
  std::string unit;
  for (const char c : std::string_view(rest, static_cast<std::size_t>(end - rest)))
    if (c != ' ') unit.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  for (const char prefix : {'K', 'M', 'G', 'T', 'P'}) {
    const std::string alone(1, prefix);
    if (unit != alone && unit != alone + "B" && unit != alone + "I" && unit != alone + "IB")
      continue;
    const std::string meant = concat(
        std::string_view(text.data(), static_cast<std::size_t>(rest - text.data())), prefix, "iB");
    return parse_bytes(meant) ? concat(" (did you mean '", meant, "'?)") : "";
  }
  return "";
}

std::string size_of_at_least(Bytes size) {
  constexpr std::array<std::string_view, 5> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (size < Bytes(1024)) return concat(size.count());
  double number = static_cast<double>(size.count()) / 1024;
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  const double parts = number >= 100 ? 1 : number >= 10 ? 10 : 100;
  return concat(std::ceil(number * parts) / parts, kUnits[unit]);
}

std::string time_of_at_least(Seconds time) {
  constexpr std::array<std::string_view, 3> kSmall{"ms", "us", "ns"};
  double number = time.count();
  std::string_view unit = "s";
  for (std::size_t next = 0; number < 1 && next < kSmall.size(); ++next) {
    number *= 1000;
    unit = kSmall[next];
  }
  const double parts = number >= 100 ? 1 : number >= 10 ? 10 : 100;
  for (double whole = std::ceil(number * parts);; ++whole) {
    std::string text = concat(whole / parts, unit);
    // Products above are rounded, too.
    if (parse_seconds(text).value_or(time) >= time) return text;
  }
}

std::string forgotten_unit(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || rest != end || number < 1 || number >= kTooFew) return "";
  return concat(", which is ", count_of(number, "byte"), " (did you mean '", number,
                number <= kMostGigabytes ? "GiB" : "MiB", "'?)");
}

}  // namespace trireme::io
