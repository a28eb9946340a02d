// Training section of a run's page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/report/run_page.h"

#include <string>

namespace trireme::report {

/// Charts of loss, throughput, gradient norm and learning rate over a common step axis; empty
/// curves have no chart. Empty where all are.
std::string training_section(const TrainingCurves& training);

}  // namespace trireme::report
