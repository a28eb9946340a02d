// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace trireme::prepare {

/// Rounds a measured figure above 0 to two digits, so that similar ones are mostly equal.
inline double two_digits(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

}  // namespace trireme::prepare
