// `trireme plan --ranks N --batch B`: which shape for so many ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_command.h"

#include "trireme/chain/platform.h"
#include "trireme/partition/shape.h"

namespace trireme::app {

/// Throws InputError where an option that it needs is missing, or one does not go with --ranks.
partition::ShapeQuestion shape_question(const PlanArguments& arguments, chain::Platform platform);

}  // namespace trireme::app
