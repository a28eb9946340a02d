// Nothing fits a job's budgets: an outcome that ends a command with exit code 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/plan/plan.h"

namespace trireme::app {

class DoesNotFit : public Error {
 public:
  /// `least` is the least budget, as the job names it, of which a plan may take `least_budget`.
  DoesNotFit(plan::Infeasible infeasible, Bytes least);

  const plan::Infeasible& infeasible() const { return infeasible_; }

 private:
  plan::Infeasible infeasible_;
};

}  // namespace trireme::app
