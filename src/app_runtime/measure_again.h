// How a user has the layers of a job measured anew.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_command.h"

#include <string>

namespace trireme::app {

/// "`trireme profile --fresh job.yaml`", with the settings of the run, and what it has chosen
/// (`settled`, and so many stages) where the job as it was read leaves it open.
std::string measure_again(const TrainArguments& run, const config::JobSpec& as_read,
                          const config::JobSpec& settled, int stages);

}  // namespace trireme::app
