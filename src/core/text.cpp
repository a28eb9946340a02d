// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"

#include "trireme/core/error.h"

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

/// "12.5 GiB" into number and unit; nothing when it does not begin with a plain number.
std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text);

std::string scaled(double value, std::span<const Unit> units);

bool looks_like_number(std::string_view cell);

/// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t width(std::string_view cell);

}  // namespace

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
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
  if (std::llabs(size.count()) < 1024) return concat(size.count(), " B");
  static constexpr std::array<Unit, 6> kUnits{{{"EiB", 0x1p60},
                                               {"PiB", 0x1p50},
                                               {"TiB", 0x1p40},
                                               {"GiB", 0x1p30},
                                               {"MiB", 0x1p20},
                                               {"KiB", 0x1p10}}};
  return scaled(static_cast<double>(size.count()), kUnits);
}

std::string to_text(Seconds time) {
  if (time.count() >= 60 && std::isfinite(time.count())) {
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

std::string to_text(double value) {
  std::array<char, 40> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  ensure(failure == std::errc{}, "a double fits into 40 characters");
  return {buffer.data(), end};
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  const auto parsed = number_and_unit(text);
  if (!parsed) return std::nullopt;
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
  for (const Unit& unit : kUnits) {
    if (unit.name != parsed->second) continue;
    const double bytes = parsed->first * unit.factor;
    if (!(bytes >= 0) || bytes > 0x1p62) return std::nullopt;
    return Bytes(static_cast<std::int64_t>(std::llround(bytes)));
  }
  return std::nullopt;
}

std::optional<Seconds> parse_seconds(std::string_view text) {
  const auto parsed = number_and_unit(text);
  if (!parsed) return std::nullopt;
  static constexpr std::array<Unit, 7> kUnits{
      {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60}, {"h", 3600}}};
  for (const Unit& unit : kUnits) {
    if (unit.name == parsed->second && parsed->first >= 0)
      return Seconds(parsed->first * unit.factor);
  }
  return std::nullopt;
}

std::string nearest_word(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // Levenshtein's distance, one row at a time.
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substitute = diagonal + (word[i - 1] == candidate[j - 1] ? 0U : 1U);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string nearest = nearest_word(word, candidates);
  return nearest.empty() ? "" : concat(" (did you mean '", nearest, "'?)");
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
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

std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text) {
  const auto trim = [](std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  };
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
