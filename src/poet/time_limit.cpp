// SPDX-License-Identifier: Apache-2.0
#include "trireme/poet/time_limit.h"

#include <algorithm>

namespace trireme::poet {

TimeLimit::TimeLimit(Seconds length) : begin_(std::chrono::steady_clock::now()), length_(length) {}

Seconds TimeLimit::left() const {
  const Seconds gone = to_seconds(std::chrono::steady_clock::now() - begin_);
  return std::max(Seconds(0), length_ - gone);
}

}  // namespace trireme::poet
