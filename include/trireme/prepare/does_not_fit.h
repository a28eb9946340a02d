// Errors of jobs that do not fit their memory budgets: exit code 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/config/job.h"
#include "trireme/plan/plan.h"
#include "trireme/prepare/prepared.h"

#include <string>
#include <utility>
#include <variant>

namespace trireme::prepare {

/// Says which key is too small, by file and line or --set, the smallest value that works, and what
/// to write instead: the planned sizes, rounded up.
class DoesNotFit : public comm::EndingError {
 public:
  /// What plans need on a device is converted to a budget as the job names it.
  DoesNotFit(const config::JobSpec& job, Misfit misfit, const ranks::RankDevice& device);

  const plan::Infeasible& infeasible() const { return infeasible_; }

 private:
  plan::Infeasible infeasible_;
};

/// What fits, or the error of why nothing does.
template <class Value>
Value fitting(std::variant<Value, Misfit> result, const config::JobSpec& job,
              const ranks::RankDevice& device) {
  if (auto* const misfit = std::get_if<Misfit>(&result))
    throw DoesNotFit(job, std::move(*misfit), device);
  return std::get<Value>(std::move(result));
}

}  // namespace trireme::prepare
