// Consistency of the keys of a job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

/// Throws InputError when two keys contradict each other or one lacks another.
void check(const JobSpec& job);

/// Throws InputError for a path with a ~ or a $VARIABLE that a shell would have expanded.
void check_paths(const JobSpec& job);

/// The part of check() that is about `model`.
void check_model(const JobSpec& job);

}  // namespace trireme::config
