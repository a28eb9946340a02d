// A rank's budget, static bytes and layers in a plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/plan/plan.h"

#include <string>

namespace trireme::report {

/// A rank's budget (0: none) and its static bytes.
struct Limits {
  Bytes budget, always;
};

Limits limits_of(const plan::Plan& plan, int rank);

/// "1..5"; for a rank with several stages "1..3 7..9".
std::string layers_of(const plan::Plan& plan, int rank);

}  // namespace trireme::report
