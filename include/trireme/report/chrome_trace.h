// Timelines in the Trace Event Format, for chrome://tracing and ui.perfetto.dev.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/simulate/simulate.h"

#include <string>
#include <vector>

namespace trireme::report {

/// One process per rank, one thread per lane, a counter for the bytes held; times in microseconds.
/// `chunks`, by layer from 1: the number of its chunk, told with every event; empty: not told.
/// Needs Detail::kTimeline.
std::string chrome_trace(const simulate::Simulation& simulation, const chain::Chain& chain,
                         const std::vector<int>& chunks = {});

/// A predicted step and the measured one in one file: a process "predicted rank 0" above every
/// "rank 0".
std::string chrome_trace(const simulate::Simulation& predicted,
                         const simulate::Simulation& measured, const chain::Chain& chain,
                         const std::vector<int>& chunks = {});

}  // namespace trireme::report
