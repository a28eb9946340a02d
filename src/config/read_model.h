// The `model` section of a job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

/// `into.model` and `into.weights` from the `model` of a job. Throws InputError.
void read_model(const io::Node& document, const LoadOptions& options, JobSpec& into);

}  // namespace trireme::config
