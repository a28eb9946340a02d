// The order of passes of a plan file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/io/node.h"
#include "trireme/plan/plan.h"

#include <optional>
#include <vector>

namespace trireme::plan {

/// What plan files say of a stage's passes that have no `order`.
struct OldPasses {
  std::optional<io::Node> in_flight, weights_behind;
};

/// Reads `order` into the plan, whose stages are there. Throws InputError where it does not fit
/// them, and where older keys stand beside it.
void read_order(const io::Node& node, const std::vector<OldPasses>& old,
                const std::optional<io::Node>& turns, Plan& plan);
/// The same for files without `order`, out of the older keys; `stages` is the list of stages.
void read_old_order(const std::vector<OldPasses>& old, const std::optional<io::Node>& turns,
                    const io::Node& stages, Plan& plan);

}  // namespace trireme::plan
