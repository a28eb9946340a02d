// `trireme check JOB.yaml`: what a run would cost, without running it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/app_runtime/in_process.h"
#include "trireme/model/chain.h"

#include <ostream>
#include <string>

namespace trireme::app {

struct ForecastArguments {
  Planning planning;
  bool opens_inputs = false;  ///< also check that data and weights exist and fit
  bool json = false;          ///< the plan on standard output and nothing else there
};

/// Profiles the job unless that was done before, and plans it. Returns the forecast as text, or the
/// plan as JSON; says on `notes` how it goes.
std::string forecast_text(const ForecastArguments& arguments, std::ostream& notes);

/// Prints the forecast. Returns the exit code; errors are printed.
int forecast(ForecastArguments arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
