// Number formats of a run's text output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::record {

/// "2.3145" with 4 decimals.
std::string fixed(double value, int decimals);

/// Three digits, which are enough to compare speeds: "3.21", "987", "9876", "12.3k", "1.23M".
std::string speed(double per_second);

}  // namespace trireme::record
