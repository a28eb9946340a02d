// Notes on a valid job that may not do what its user meant.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <string>
#include <vector>

namespace trireme::config {

/// A line for each: a warm-up that is longer than the training, budgets of a few bytes.
std::vector<std::string> job_notes(const JobSpec& job);

}  // namespace trireme::config
