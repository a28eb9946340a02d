// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"

#include "trireme/core/error.h"
#include "trireme/core/visible.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

namespace trireme {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

std::string_view trim(std::string_view text);

/// Parses whole bytes as an integer: a double has 53 bits only.
std::optional<std::int64_t> parse_whole_bytes(std::string_view text);

/// "12.5 GiB" into number and unit; nothing when it does not begin with a plain number.
std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text);

/// Bytes per unit, one of "", "B", "KiB", ..., "PB".
std::optional<double> bytes_of_unit(std::string_view name);

std::string scaled(double value, std::span<const Unit> units);

/// Letters to insert, leave out, replace or swap with their neighbour (Damerau 1964).
std::size_t edit_distance(std::string_view a, std::string_view b);

bool looks_like_number(std::string_view cell);

/// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t width(std::string_view cell);

}  // namespace

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string count_of(std::int64_t number, std::string_view noun) {
  if (number == 1) return concat("1 ", noun);
  return concat(number, " ", noun, noun.ends_with('s') || noun.ends_with("ch") ? "es" : "s");
}

std::string range_text(std::int64_t first, std::int64_t last) {
  return first == last ? concat(first) : concat(first, "..", last);
}

std::string enumerated(std::span<const std::string> parts) {
  if (parts.size() < 2) return join(parts, "");
  return concat(join(parts.first(parts.size() - 1), ", "), " and ", parts.back());
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces(1);
  for (const char c : text) {
    if (c == separator) {
      pieces.emplace_back();
    } else {
      pieces.back().push_back(c);
    }
  }
  return pieces;
}

std::string to_text(Bytes size) {
  if (size > Bytes(-1024) && size < Bytes(1024)) return concat(size.count(), " B");
  static constexpr std::array<Unit, 6> kUnits{{{"EiB", 0x1p60},
                                               {"PiB", 0x1p50},
                                               {"TiB", 0x1p40},
                                               {"GiB", 0x1p30},
                                               {"MiB", 0x1p20},
                                               {"KiB", 0x1p10}}};
  return scaled(static_cast<double>(size.count()), kUnits);
}

std::string to_text(Seconds time) {
  if (time.count() == 0) return "0 s";
  constexpr double kMostWhole = 1e15;  // largest time shown in whole seconds
  if (time.count() >= 60 && time.count() < kMostWhole) {
    const auto whole = static_cast<long long>(std::llround(time.count()));
    std::array<char, 48> buffer{};
    if (whole >= 3600) {
      std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld:%02lld h", whole / 3600,
                    whole / 60 % 60, whole % 60);
    } else {
      std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld min", whole / 60, whole % 60);
    }
    return buffer.data();
  }
  static constexpr std::array<Unit, 4> kUnits{{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
  return scaled(time.count(), kUnits);
}

std::string to_text(BytesPerSecond rate) {
  static constexpr std::array<Unit, 5> kUnits{
      {{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"KB/s", 1e3}, {"B/s", 1}}};
  return scaled(rate.count(), kUnits);
}

std::string to_text(Joules energy) {
  if (energy.count() == 0) return "0 J";
  static constexpr std::array<Unit, 6> kUnits{
      {{"MJ", 1e6}, {"kJ", 1e3}, {"J", 1}, {"mJ", 1e-3}, {"uJ", 1e-6}, {"nJ", 1e-9}}};
  return scaled(energy.count(), kUnits);
}

std::string to_text(double value) {
  std::array<char, 40> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  ensure(failure == std::errc{}, "a double fits into 40 characters");
  return {buffer.data(), end};
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (const auto count = parse_whole_bytes(text)) {
    if (*count < 0 || *count > kMost) return std::nullopt;
    return Bytes(*count);
  }
  const auto parsed = number_and_unit(text);
  const auto factor = parsed ? bytes_of_unit(parsed->second) : std::nullopt;
  if (!factor) return std::nullopt;
  const double bytes = parsed->first * *factor;
  if (*factor == 1 && bytes != std::floor(bytes)) return std::nullopt;  // meant as a share?
  if (!(bytes >= 0) || bytes > static_cast<double>(kMost)) return std::nullopt;
  return Bytes(static_cast<std::int64_t>(std::llround(bytes)));
}

std::optional<BytesPerSecond> parse_rate(std::string_view text) {
  if (!text.ends_with("/s")) return std::nullopt;
  const auto parsed = number_and_unit(text.substr(0, text.size() - 2));
  const auto factor = parsed ? bytes_of_unit(parsed->second) : std::nullopt;
  if (!factor || !(parsed->first >= 0)) return std::nullopt;
  return BytesPerSecond(parsed->first * *factor);
}

std::optional<Seconds> parse_seconds(std::string_view text) {
  const auto parsed = number_and_unit(text);
  if (!parsed) return std::nullopt;
  // Small units divide: 5 / 1e6 is the double nearest to 5e-6, 5 * 1e-6 is not.
  struct Scale {
    std::string_view name;
    double factor, divisor;
  };
  static constexpr std::array<Scale, 7> kScales{{{"", 1, 1},
                                                 {"s", 1, 1},
                                                 {"ms", 1, 1e3},
                                                 {"us", 1, 1e6},
                                                 {"ns", 1, 1e9},
                                                 {"min", 60, 1},
                                                 {"h", 3600, 1}}};
  for (const Scale& scale : kScales) {
    const double seconds = parsed->first * scale.factor / scale.divisor;
    if (scale.name == parsed->second && seconds >= 0 && std::isfinite(seconds))
      return Seconds(seconds);
  }
  return std::nullopt;
}

std::string nearest_word(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    const bool shares_a_letter = distance < std::max(word.size(), candidate.size());
    if (shares_a_letter && distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string nearest = nearest_word(word, candidates);
  return nearest.empty() ? "" : concat(" (did you mean '", nearest, "'?)");
}

std::string table(const std::vector<std::vector<std::string>>& cells) {
  if (cells.empty()) return "";
  std::vector<std::vector<std::string>> rows = cells;
  for (auto& row : rows)
    for (std::string& cell : row) cell = visible(cell);
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    ensure(row.size() == widths.size(), "every row of a table has as many cells as its head");
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string& cell = rows[r][c];
      const std::string padding(widths[c] - width(cell), ' ');
      const bool right =
          looks_like_number(rows[std::max<std::size_t>(r, rows.size() > 1 ? 1 : 0)][c]);
      line += c == 0 ? "" : "  ";
      line += right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) {
      for (std::size_t c = 0; c < widths.size(); ++c)
        text += (c == 0 ? "" : "  ") + std::string(widths[c], '-');
      text += "\n";
    }
  }
  return text;
}

namespace {

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> parse_whole_bytes(std::string_view text) {
  text = trim(text);
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, count);
  if (failure != std::errc{}) return std::nullopt;
  const std::string_view unit = trim({rest, static_cast<std::size_t>(end - rest)});
  if (!unit.empty() && unit != "B") return std::nullopt;
  return count;
}

std::optional<double> bytes_of_unit(std::string_view name) {
  static constexpr std::array<Unit, 13> kUnits{{{"", 1},
                                                {"B", 1},
                                                {"KiB", 0x1p10},
                                                {"MiB", 0x1p20},
                                                {"GiB", 0x1p30},
                                                {"TiB", 0x1p40},
                                                {"PiB", 0x1p50},
                                                {"KB", 1e3},
                                                {"kB", 1e3},
                                                {"MB", 1e6},
                                                {"GB", 1e9},
                                                {"TB", 1e12},
                                                {"PB", 1e15}}};
  for (const Unit& unit : kUnits)
    if (unit.name == name) return unit.factor;
  return std::nullopt;
}

std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text) {
  text = trim(text);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || !std::isfinite(value)) return std::nullopt;
  return std::pair(value, trim(text.substr(static_cast<std::size_t>(end - text.data()))));
}

std::string scaled(double value, std::span<const Unit> units) {
  const Unit* chosen = &units.back();
  for (const Unit& unit : units) {
    if (std::abs(value) >= unit.factor) {
      chosen = &unit;
      break;
    }
  }
  const double number = value / chosen->factor;
  std::array<char, 48> buffer{};
  const int decimals = std::abs(number) >= 100 ? 0 : std::abs(number) >= 10 ? 1 : 2;
  std::snprintf(buffer.data(), buffer.size(), "%.*f ", decimals, number);
  return std::string(buffer.data()) + std::string(chosen->name);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> before(columns), above(columns), row(columns);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
      row[j] = std::min({row[j - 1] + 1, above[j] + 1, replaced});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

bool looks_like_number(std::string_view cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell.front())) != 0 ||
                           cell.front() == '-' || cell.front() == '+');
}

std::size_t width(std::string_view cell) {
  return static_cast<std::size_t>(std::count_if(cell.begin(), cell.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace
}  // namespace trireme
