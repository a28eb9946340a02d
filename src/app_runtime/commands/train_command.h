// `trireme train JOB.yaml`: plans and trains a job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <string>
#include <vector>

namespace trireme::app {

struct TrainArguments {
  std::string job_file;
  std::vector<std::string> settings;  ///< "section.key=value"
  bool json = false;          ///< the summary on standard output, everything else on standard error
  std::string report, trace;  ///< further files for the run's page and the last step's timeline
};

/// Returns the exit code; errors are printed.
int train(const TrainArguments& arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
