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
  std::string output;                 ///< file for the plan; empty: none
  std::string report;                 ///< file for a page on the plan; empty: none
  bool opens_inputs = false;          ///< also check that data and weights exist and fit
  bool json = false;                  ///< the plan on standard output and nothing else there
};

/// Profiles the job unless that was done before, plans it, and prints the forecast. Returns the
/// exit code; errors are printed.
int forecast(const ForecastArguments& arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
