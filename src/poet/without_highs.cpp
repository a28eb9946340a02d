// SPDX-License-Identifier: Apache-2.0
#include "milp.h"

#include "trireme/core/error.h"

namespace trireme::poet {

bool has_highs() {
  return false;
}

MilpResult solve_milp(const Milp&, const Terms&, const MilpLimits&) {
  ensure(has_highs(), "who solves a program asks first whether this build can");
  return {};
}

}  // namespace trireme::poet
