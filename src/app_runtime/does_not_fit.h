// Nothing fits a job's budgets: an outcome that ends a command with exit code 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/plan/plan.h"

#include <string>

namespace trireme::app {

class RankDevice;

class DoesNotFit : public comm::EndingError {
 public:
  /// Of bytes that a job names as plans count them.
  explicit DoesNotFit(plan::Infeasible infeasible);
  /// Of `device`: the least budget is said as the job names it.
  DoesNotFit(plan::Infeasible infeasible, const RankDevice& device);

  const plan::Infeasible& infeasible() const { return infeasible_; }

 private:
  DoesNotFit(plan::Infeasible infeasible, Bytes least);

  plan::Infeasible infeasible_;
};

/// Layers took more than when they were measured, so that a plan within the budget went over it:
/// exit code 3.
class Outgrown : public comm::EndingError {
 public:
  explicit Outgrown(const std::string& text) : EndingError(comm::Ending::kDoesNotFit, text) {}
};

}  // namespace trireme::app
