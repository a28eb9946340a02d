// The output of `trireme plan --why`: why a plan was chosen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/planner.h"

#include <string>

namespace trireme::app {

/// A row for every axis of the search with the fastest decision without it (an ablation), then the
/// simulated decisions: the fastest ten, or with `verbose` all in the order of the search.
std::string why_text(const partition::Explained& explained, bool verbose);

}  // namespace trireme::app
