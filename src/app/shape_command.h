// `trireme plan --ranks N --batch B`: which shape for so many ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_command.h"

#include "trireme/chain/platform.h"
#include "trireme/partition/shape.h"

#include <cstddef>
#include <string>

namespace trireme::app {

/// Throws InputError where an option that it needs is missing, or one does not go with --ranks.
partition::ShapeQuestion shape_question(const PlanArguments& arguments, chain::Platform platform);

/// The shapes that were tried, as a table.
std::string to_text(const partition::ShapeAnswer& answer);

/// Of an answer without a plan, the shape that lacks least.
std::size_t leanest(const partition::ShapeAnswer& answer);

}  // namespace trireme::app
