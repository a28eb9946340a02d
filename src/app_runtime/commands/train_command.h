// `trireme train JOB.yaml`: plans and trains a job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/app_runtime/in_process.h"
#include "trireme/core/units.h"
#include "trireme/model/chain.h"
#include "trireme/ranks/launch.h"

#include <string>

namespace trireme::app {

struct TrainArguments {
  Training training;
  bool json = false;  ///< the summary on standard output, everything else on standard error
  /// Age of the process when it was asked to train: what came before is a calling program's.
  Seconds begun{0};
  std::string report, trace;  ///< further files for the run's page and the last step's timeline
};

/// Returns the exit code of errors that were printed; other errors are thrown, those of ranks that
/// are threads only if `errors` says so.
Trained trained(const TrainArguments& arguments, ranks::LocalErrors errors);

/// Returns the exit code; errors are printed.
int train(TrainArguments arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
