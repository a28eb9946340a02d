// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/partition/goal.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace trireme::partition {
namespace {

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

const std::vector<std::string>& objective_names() {
  static const std::vector<std::string> kNames{"time", "energy"};
  return kNames;
}

std::optional<Objective> objective_named(std::string_view name) {
  const std::vector<std::string>& names = objective_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Objective>(found - names.begin());
}

Seconds Deadline::of(Seconds fastest) const {
  return std::isinf(factor) ? time : std::min(time, fastest * factor);
}

std::optional<Deadline> deadline_of(std::string_view text) {
  if (text == "none") return Deadline{};
  if (text.ends_with("x")) {
    const std::optional<double> factor = number_of(text.substr(0, text.size() - 1));
    if (!factor || !(*factor > 0) || std::isinf(*factor)) return std::nullopt;
    return Deadline{.factor = *factor};
  }
  const std::optional<Seconds> time = parse_seconds(text);
  if (!time || !(*time > Seconds(0)) || std::isinf(time->count())) return std::nullopt;
  return Deadline{.time = *time};
}

}  // namespace trireme::partition
