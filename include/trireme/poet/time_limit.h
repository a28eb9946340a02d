// When a search has to end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <chrono>

namespace trireme::poet {

/// Begins when it is made, of a length or as a part of another one; copies end together. Whoever
/// hands one value to several searches gives them so long for all together.
class TimeLimit {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a length says all, as in {.limit = Seconds(30)}
  TimeLimit(Seconds length);

  /// 0 where it is over.
  Seconds left() const;
  bool is_over() const { return left() == Seconds(0); }
  /// A limit that ends after `share` of what is left of this one, 0 to 1.
  TimeLimit part(double share) const { return TimeLimit(left() * share); }

 private:
  std::chrono::steady_clock::time_point begin_;
  Seconds length_;
};

}  // namespace trireme::poet
