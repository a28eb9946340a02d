// The whole chain on one rank: a single-stage solver's program and what it costs there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <string>

namespace trireme::partition {

/// Throws InputError when there is no such solver or it does not take this chain.
Answer answer_alone(const Question& question, const std::string& solver);

}  // namespace trireme::partition
