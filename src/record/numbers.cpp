// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace trireme::record {

std::string fixed(double value, int decimals) {
  std::array<char, 352> buffer{};  // the largest double has 309 digits before the point
  std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, value);
  return buffer.data();
}

std::string speed(double per_second) {
  // Limits are where rounding would add a digit.
  if (!std::isfinite(per_second)) return "-";
  if (per_second < 9.995) return fixed(per_second, 2);
  if (per_second < 99.95) return fixed(per_second, 1);
  if (per_second < 9999.5) return fixed(per_second, 0);
  if (per_second < 99.95e3) return fixed(per_second / 1e3, 1) + "k";
  if (per_second < 999.5e3) return fixed(per_second / 1e3, 0) + "k";
  if (per_second < 9.995e6) return fixed(per_second / 1e6, 2) + "M";
  return fixed(per_second / 1e6, 1) + "M";
}

}  // namespace trireme::record
