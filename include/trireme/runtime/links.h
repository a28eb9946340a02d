// Between which ranks device memory travels: what a transport that connects pairs has to know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/link.h"
#include "trireme/plan/plan.h"

#include <span>
#include <vector>

namespace trireme::runtime {

/// Those of sums over a group: neighbours, both ways.
std::vector<comm::Link> replica_links(std::span<const int> group);

/// Those of a job, in the same order on every rank; `plan`'s stages in the order of their layers.
/// Outputs and gradients of every boundary; gradients of a weight that the first and the last layer
/// tie; replica_links(). What other layers tie is left out: no rank knows of that before it has its
/// layers.
std::vector<comm::Link> job_links(const plan::Plan& plan, int replicas);

}  // namespace trireme::runtime
