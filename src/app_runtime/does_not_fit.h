// Errors of jobs that do not fit their memory budgets: exit code 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/config/job.h"
#include "trireme/plan/plan.h"

#include <string>

namespace trireme::app {

class RankDevice;

/// Says which key is too small, by file and line or --set, the smallest value that works, and what
/// to write instead: the planned sizes, rounded up.
class DoesNotFit : public comm::EndingError {
 public:
  /// For a rank's device. What plans need there is converted to a budget as the job names it.
  static DoesNotFit on_device(const config::JobSpec& job, plan::Infeasible infeasible,
                              const RankDevice& device);
  /// For a rank's offload tier that is too small for a given plan.
  static DoesNotFit in_offload_tier(const config::JobSpec& job, plan::Infeasible infeasible);

  const plan::Infeasible& infeasible() const { return infeasible_; }

 private:
  DoesNotFit(const std::string& text, plan::Infeasible infeasible)
      : EndingError(comm::Ending::kDoesNotFit, text), infeasible_(std::move(infeasible)) {}

  plan::Infeasible infeasible_;
};

/// Layers took more memory than when they were measured, so that a plan within the budget exceeded
/// it: exit code 3.
class Outgrown : public comm::EndingError {
 public:
  explicit Outgrown(const std::string& text) : EndingError(comm::Ending::kDoesNotFit, text) {}
};

}  // namespace trireme::app
