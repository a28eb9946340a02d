// SPDX-License-Identifier: Apache-2.0
#include "plan_ranks.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <vector>

namespace trireme::report {

Limits limits_of(const plan::Plan& plan, int rank) {
  Limits limits;
  for (const plan::StagePlan& stage : plan.stages) {
    if (stage.rank != rank) continue;
    limits.budget = std::max(limits.budget, stage.budget);
    limits.always += stage.static_bytes;
  }
  return limits;
}

std::string layers_of(const plan::Plan& plan, int rank) {
  std::vector<std::string> parts;
  for (const plan::StagePlan& stage : plan.stages) {
    if (stage.rank == rank)
      parts.push_back(range_text(stage.program.first_layer, stage.program.last_layer));
  }
  return join(parts, " ");
}

}  // namespace trireme::report
