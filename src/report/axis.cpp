// SPDX-License-Identifier: Apache-2.0
#include "axis.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace trireme::report {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// The largest unit that the largest value reaches.
Unit unit_for(double largest, std::span<const Unit> units);
Ticks ticks_in(const Unit& unit, const Scale& scale, int most, double least_step);
std::vector<double> even_ticks(double from, double to, int most, double least_step);
/// 1, 2, 5, 10 ...
std::vector<double> logarithmic_ticks(double from, double to);

}  // namespace

double Scale::at(double value) const {
  const double share =
      logarithmic ? std::log(value / from) / std::log(to / from) : (value - from) / (to - from);
  return begin + share * (end - begin);
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
  Ticks ticks{std::string(unit.name), {}};
  std::vector<double> values =
      scale.logarithmic ? logarithmic_ticks(from, to) : even_ticks(from, to, most, least_step);
  for (const double value : values) ticks.ticks.push_back({value * unit.factor, to_text(value)});
  return ticks;
}

std::vector<double> even_ticks(double from, double to, int most, double least_step) {
  double step = round_below((to - from) / most);
  const auto count = [&] { return std::floor(to / step) - std::ceil(from / step) + 1; };
  while (count() > most) step = round_below(step * 2.5);  // 1, 2, 5, 10
  step = std::max(step, least_step);
  std::vector<double> values;
  // A tick is a whole multiple, computed by division where the step is below 1: 3 / 10, not 3 *
  // 0.1.
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
