// `trireme plan --ranks N --batch B`: chooses stages, replicas and micro-batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_command.h"

#include "trireme/chain/platform.h"
#include "trireme/partition/shape.h"

namespace trireme::app {

/// Throws InputError where a required option is missing, or one conflicts with --ranks.
partition::ShapeQuestion shape_question(const PlanArguments& arguments, chain::Platform platform);

}  // namespace trireme::app
