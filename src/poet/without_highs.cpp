// SPDX-License-Identifier: Apache-2.0
#include "milp.h"

#include "trireme/core/error.h"

namespace trireme::poet {

bool has_highs() {
  return false;
}

MilpResult solve_milp(const Milp&, const Terms&, const MilpLimits&) {
  throw InputError(
      "poet: this build has no HiGHS, which solves its programs; ./launch/install fetches it, then "
      "build again (or use another solver, such as greedy)");
}

}  // namespace trireme::poet
