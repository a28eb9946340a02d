// The part of a run's page that says how training went.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/report/run_page.h"

#include <string>

namespace trireme::report {

/// Loss, throughput, gradient norm and learning rate over the steps, one above the other on one
/// axis of steps; curves that are empty have no chart. Nothing where all are.
std::string training_section(const TrainingCurves& training);

}  // namespace trireme::report
