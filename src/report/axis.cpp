// SPDX-License-Identifier: Apache-2.0
#include "axis.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <span>
#include <string_view>

namespace trireme::report {
namespace {

/// Axes with numbers outside this range use scientific notation, 2e-5, for all of them.
constexpr double kFinestFixed = 1e-4 * (1 - 1e-9), kLargestFixed = 1e7;
/// Digits of ticks, which are round numbers.
constexpr int kTickDigits = 12;

struct Unit {
  std::string_view name;
  double factor;
};

/// The largest unit that the largest value reaches.
Unit unit_for(double largest, std::span<const Unit> units);
Ticks ticks_in(const Unit& unit, const Scale& scale, int most, double least_step);
/// At most `digits` digits, without trailing zeros.
std::string fixed_text(double value, int digits);
/// "3e-5", "1.5e-5".
std::string scientific_text(double value, int digits);
std::vector<double> even_ticks(double from, double to, int most, double least_step);
/// 1, 2, 5, 10 ...
std::vector<double> logarithmic_ticks(double from, double to);

}  // namespace

double Scale::at(double value) const {
  const double share =
      logarithmic ? std::log(value / from) / std::log(to / from) : (value - from) / (to - from);
  return begin + share * (end - begin);
}

std::string Ticks::text(double value) const {
  constexpr int kDigits = 4;
  if (std::abs(value) < factor * 1e-3 && factor > 1) return fixed_text(value, kDigits);
  const double number = value / factor;
  return (is_scientific ? scientific_text(number, kDigits) : fixed_text(number, kDigits)) + unit;
}

Ticks byte_ticks(const Scale& scale, int most) {
  static constexpr std::array<Unit, 6> kUnits{{{"PiB", 0x1p50},
                                               {"TiB", 0x1p40},
                                               {"GiB", 0x1p30},
                                               {"MiB", 0x1p20},
                                               {"KiB", 0x1p10},
                                               {"B", 1}}};
  const Unit unit = unit_for(scale.to, kUnits);
  return ticks_in(unit, scale, most, unit.factor == 1 ? 1 : 0);
}

Ticks time_ticks(const Scale& scale, int most) {
  static constexpr std::array<Unit, 4> kUnits{{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
  return ticks_in(unit_for(scale.to, kUnits), scale, most, 0);
}

Ticks number_ticks(const Scale& scale, int most) {
  static constexpr std::array<Unit, 4> kUnits{{{"G", 1e9}, {"M", 1e6}, {"k", 1e4}, {"", 1}}};
  Unit unit = unit_for(scale.to, kUnits);
  if (unit.name == "k") unit.factor = 1e3;  // up to 9999 as they are
  return ticks_in(unit, scale, most, 0);
}

Ticks whole_ticks(const Scale& scale, int most) {
  return ticks_in({"", 1}, scale, most, 1);
}

double round_below(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  const double lead = value / power;
  return power * (lead >= 5 ? 5 : lead >= 2 ? 2 : 1);
}

namespace {

Unit unit_for(double largest, std::span<const Unit> units) {
  const auto found = std::find_if(units.begin(), units.end(),
                                  [largest](const Unit& unit) { return largest >= unit.factor; });
  return found == units.end() ? units.back() : *found;
}

Ticks ticks_in(const Unit& unit, const Scale& scale, int most, double least_step) {
  const double from = scale.from / unit.factor, to = scale.to / unit.factor;
  Ticks ticks{.unit = std::string(unit.name), .ticks = {}, .factor = unit.factor};
  const std::vector<double> values =
      scale.logarithmic ? logarithmic_ticks(from, to) : even_ticks(from, to, most, least_step);
  double finest = std::numeric_limits<double>::infinity(), largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(values[i]));
    if (i > 0) finest = std::min(finest, values[i] - values[i - 1]);
    if (values[i] != 0) finest = std::min(finest, std::abs(values[i]));
  }
  ticks.is_scientific = finest < kFinestFixed || largest >= kLargestFixed;
  for (const double value : values)
    ticks.ticks.push_back({value * unit.factor, ticks.is_scientific
                                                    ? scientific_text(value, kTickDigits)
                                                    : fixed_text(value, kTickDigits)});
  return ticks;
}

std::string fixed_text(double value, int digits) {
  // Decimals fill up the digits; whole numbers keep all of theirs.
  const int before = value == 0 ? 1 : static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  std::array<char, 352> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", std::max(0, digits - before), value);
  std::string text = buffer.data();
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string scientific_text(double value, int digits) {
  if (value == 0) return "0";
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*e", digits - 1, value);
  const std::string text = buffer.data();
  const std::size_t place = text.find('e');
  std::string number = text.substr(0, place);
  if (number.find('.') != std::string::npos) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
  }
  return concat(number, 'e', std::stoi(text.substr(place + 1)));
}

std::vector<double> even_ticks(double from, double to, int most, double least_step) {
  double step = round_below((to - from) / most);
  const auto count = [&] { return std::floor(to / step) - std::ceil(from / step) + 1; };
  while (count() > most) step = round_below(step * 2.5);  // 1, 2, 5, 10
  step = std::max(step, least_step);
  std::vector<double> values;
  // Ticks are whole multiples, computed by division where the step is below 1: 3 / 10, not 3 * 0.1.
  const double divisor = std::round(1 / step);
  for (double k = std::ceil(from / step - 1e-9); k * step <= to * (1 + 1e-12); ++k)
    values.push_back(k == 0 ? 0 : step < 1 ? k / divisor : k * step);  // not -0
  return values;
}

std::vector<double> logarithmic_ticks(double from, double to) {
  std::vector<double> values;
  const auto last = static_cast<int>(std::floor(std::log10(to)));
  for (auto power = static_cast<int>(std::floor(std::log10(from))); power <= last; ++power) {
    for (const double lead : {1.0, 2.0, 5.0}) {
      const double value = power < 0 ? lead / std::pow(10, -power) : lead * std::pow(10, power);
      if (value >= from * (1 - 1e-9) && value <= to * (1 + 1e-9)) values.push_back(value);
    }
  }
  return values;
}

}  // namespace
}  // namespace trireme::report
