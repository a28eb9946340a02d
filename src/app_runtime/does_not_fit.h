// Nothing fits a job's budgets: an outcome that ends a command with exit code 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/plan/plan.h"

namespace trireme::app {

class DoesNotFit : public Error {
 public:
  explicit DoesNotFit(plan::Infeasible infeasible);

  const plan::Infeasible& infeasible() const { return infeasible_; }

 private:
  plan::Infeasible infeasible_;
};

}  // namespace trireme::app
