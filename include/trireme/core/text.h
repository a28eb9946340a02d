// Text: numbers with units both ways, joining, tables, nearest words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The parts, streamed one after the other. Throws std::bad_alloc.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios::badbit);  // else the text is silently cut short without memory
  (out << ... << parts);
  return std::move(out).str();
}

/// "1 rank", "3 ranks", "2 passes", "2 batches".
std::string count_of(std::int64_t number, std::string_view noun);
/// "3..5", or "3" where both are the same.
std::string range_text(std::int64_t first, std::int64_t last);
std::string join(std::span<const std::string> parts, std::string_view separator);
/// "a", "a and b", "a, b and c"; "" without parts.
std::string enumerated(std::span<const std::string> parts);

/// `text` cut at every `separator`; empty pieces stay.
std::vector<std::string> split(std::string_view text, char separator);

/// For people: "1.50 GiB", "12 B", "3.20 ms", "1.25 GB/s", "4.80 kJ".
std::string to_text(Bytes size);
std::string to_text(Seconds time);
std::string to_text(BytesPerSecond rate);
std::string to_text(Joules energy);

/// A number without needless digits that reads back as the same double.
std::string to_text(double value);

/// "4096", "12GiB", "1.5 MB", "80KiB": binary and decimal units, bytes without one. Nothing if it
/// is not a size, negative, or over 2^62.
std::optional<Bytes> parse_bytes(std::string_view text);

/// A size a second: "12GB/s", "0.4kB/s", "100/s". Nothing if it is not one or negative.
std::optional<BytesPerSecond> parse_rate(std::string_view text);

/// "60s", "1.5 ms", "2min", "1h", seconds without a unit. Nothing if it is not a time or negative.
std::optional<Seconds> parse_seconds(std::string_view text);

/// The candidate that `word` was probably meant to be (small edit distance), or empty.
std::string nearest_word(std::string_view word, std::span<const std::string> candidates);

/// " (did you mean 'x'?)" or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// Columns padded to their widest cell, first row as header with a rule below; numbers
/// right-aligned. Every row must have as many cells as the first. Cells are made visible().
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace trireme
