// The best plan so far, and on which cut.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cut_search.h"

#include "trireme/plan/plan.h"

#include <optional>
#include <utility>

namespace trireme::partition {

struct Found {
  std::optional<plan::Plan> plan;
  Cut cut;  ///< of the plan; of the last one tried if there is none

  /// Keeps the faster plan; whether that is `other`.
  bool take(std::optional<plan::Plan> other, const Cut& from) {
    if (!other || (plan && plan->step <= other->step * (1 + kGain))) return false;
    plan = std::move(other);
    cut = from;
    return true;
  }
};

}  // namespace trireme::partition
