// Nothing fits a job's budgets: an outcome that ends a command with exit code 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/plan/plan.h"

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

}  // namespace trireme::app
