// The optimizer's state back on the devices, as far as a plan leaves room for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// The longest that a rank's copies of state take one way.
Seconds copies_of(const Problem& problem, const plan::Plan& plan);

/// The plan with as much of the state back on the device as its ranks have room for.
plan::Plan with_room_used(const Problem& problem, plan::Plan plan);

}  // namespace trireme::partition
