// Pairs of ranks that exchange device memory: for transports that connect pairs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/link.h"
#include "trireme/plan/plan.h"

#include <span>
#include <vector>

namespace trireme::runtime {

/// Links for sums over a group: neighbours, both ways.
std::vector<comm::Link> replica_links(std::span<const int> group);

/// Links of a job, in the same order on every rank; `plan`'s stages in the order of their layers.
/// They carry outputs and gradients of every boundary, gradients of a weight that the first and the
/// last layer tie, and replica_links(). Ties of other layers are left out: no rank knows them
/// before its layers are built.
std::vector<comm::Link> job_links(const plan::Plan& plan, int replicas);

/// Pairs of ranks whose links are measured before there is a plan, of `ranks` ranks in pipelines of
/// `stages`: neighbours, and the ends of each pipeline, which stand for all other pairs.
std::vector<comm::Link> links_to_measure(int ranks, int stages);

}  // namespace trireme::runtime
