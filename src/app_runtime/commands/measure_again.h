// The command that measures the layers of a job again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/app_runtime/in_process.h"
#include "trireme/config/job.h"

#include <string>

namespace trireme::app {

/// "`trireme profile --fresh job.yaml`", with the settings of the run and, where the job as it was
/// read leaves them open, its choices (`settled`, `stages`); with `both`, once more with lean
/// tapes. Where a program hands its job or chain over, which no command sees: what to delete.
std::string measure_again(const GivenJob& run, const config::JobSpec& as_read,
                          const config::JobSpec& settled, int stages, bool both);

}  // namespace trireme::app
