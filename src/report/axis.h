// Axes of charts: scales from quantities to pixels, with round ticks in a suitable unit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <string>
#include <vector>

namespace trireme::report {

/// Maps a range of values to a range of pixels, linear or logarithmic.
struct Scale {
  double from = 0, to = 1;    ///< values, from < to
  double begin = 0, end = 1;  ///< pixels
  bool logarithmic = false;   ///< from > 0

  double at(double value) const;
};

struct Tick {
  double value = 0;  ///< bytes, seconds
  std::string text;  ///< the number alone
};

/// Ticks that share a unit, named once as in "memory (GiB)", and a notation: 0.0003 and 0.0005, or
/// 3e-5 and 5e-5.
struct Ticks {
  std::string unit;
  std::vector<Tick> ticks;
  double factor = 1;           ///< size of the unit
  bool is_scientific = false;  ///< scientific notation

  /// Formats any value like the ticks, in four digits, with the unit: "22.01k".
  std::string text(double value) const;
};

/// At most about `most` ticks within the scale.
Ticks byte_ticks(const Scale& scale, int most);
Ticks time_ticks(const Scale& scale, int most);
/// Numbers without a unit; the shared unit is "", or where they are large "k", "M", "G".
Ticks number_ticks(const Scale& scale, int most);
/// Whole numbers.
Ticks whole_ticks(const Scale& scale, int most);

/// The greatest number below or at `value` out of 1, 2, 5, 10, 20 ... and 0.5, 0.2 ...
double round_below(double value);

}  // namespace trireme::report
