// Pictures of a step: the pipeline, and memory and lanes of a rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "timeline.h"

#include "trireme/chain/chain.h"

#include <string>
#include <vector>

namespace trireme::report {

/// Legend of the colours.
std::string legend(const Timelines& timelines);

/// Compute of `ranks` over the step, predicted above measured; `chunks` as for pass_rows().
std::string pipeline_panel(const Timelines& timelines, const chain::Chain& chain,
                           const std::vector<int>& chunks, const std::vector<int>& ranks);

/// Memory of one rank above its lanes, predicted above measured.
std::string rank_panel(const Timelines& timelines, const chain::Chain& chain, int rank,
                       const Limits& limits);

}  // namespace trireme::report
