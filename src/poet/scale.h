// Units of a program: tolerances of solvers are absolute, so its numbers must be of one order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model.h"

namespace trireme::poet {

/// What rounding may add to the time of a schedule that ends right at the deadline, relative.
inline constexpr double kSlack = 1e-9;

/// By how much a solution's objective and its schedule's costs may differ, relative.
inline constexpr double kRounding = 1e-6;

struct Scale {
  double byte = 1, second = 1, objective = 1;  ///< numbers in the program per byte, second, and
                                               ///< joule or whatever else is minimized
  double half_a_unit = 0;      ///< half of the least difference of two sums of bytes
  double memory = kUnbounded;  ///< of outputs at once, in the program's units

  double operator()(Bytes size) const { return static_cast<double>(size.count()) * byte; }
  double operator()(Seconds time) const { return time.count() * second; }
};

Scale scale_of(const graph::Problem& problem, const Question& question);

}  // namespace trireme::poet
