// Nothing fits a job's budgets: an outcome that ends a command with exit code 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/config/job.h"
#include "trireme/plan/plan.h"

#include <string>

namespace trireme::app {

class RankDevice;

/// Says which key has too little, by file and line or --set, what the least is, and what to write
/// instead: sizes that were planned with, rounded up.
class DoesNotFit : public comm::EndingError {
 public:
  /// Of a rank's device. What plans need there is said as the job names it.
  static DoesNotFit on_device(const config::JobSpec& job, plan::Infeasible infeasible,
                              const RankDevice& device);
  /// Of a rank's offload tier, which a plan that was given needs.
  static DoesNotFit in_offload_tier(const config::JobSpec& job, plan::Infeasible infeasible);

  const plan::Infeasible& infeasible() const { return infeasible_; }

 private:
  DoesNotFit(const std::string& text, plan::Infeasible infeasible)
      : EndingError(comm::Ending::kDoesNotFit, text), infeasible_(std::move(infeasible)) {}

  plan::Infeasible infeasible_;
};

/// Layers took more than when they were measured, so that a plan within the budget went over it:
/// exit code 3.
class Outgrown : public comm::EndingError {
 public:
  explicit Outgrown(const std::string& text) : EndingError(comm::Ending::kDoesNotFit, text) {}
};

}  // namespace trireme::app
