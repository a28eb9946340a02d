// Several stages: every policy with its best cut and with the equal one, the best of everything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// The question must be sound.
Answer plan_pipeline(const Question& question);

}  // namespace trireme::partition
