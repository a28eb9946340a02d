// `trireme check JOB.yaml`: what a run would cost, without running it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <string>
#include <vector>

namespace trireme::app {

struct ForecastArguments {
  std::string job_file;
  std::vector<std::string> settings;  ///< "section.key=value"
  int ranks = 0;                      ///< of the run; 0: the job's stages x replicas
  std::string output;                 ///< the plan goes there; empty: nowhere
  std::string report;                 ///< a page on it, likewise
  bool opens_inputs = false;          ///< also whether data and weights are there and fit
  bool json = false;                  ///< the plan on standard output and nothing else there
};

/// Profiles where that was not done before, plans, and says what is expected. Returns the exit
/// code; errors are printed.
int forecast(const ForecastArguments& arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
