// Timelines in the Trace Event Format, for chrome://tracing and ui.perfetto.dev.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/simulate/simulate.h"

#include <string>

namespace trireme::report {

/// One process per rank, one thread per lane, a counter for the bytes held; times in microseconds.
/// Needs Detail::kTimeline.
std::string chrome_trace(const simulate::Simulation& simulation, const chain::Chain& chain);

/// A predicted step and the measured one in one file: a process "predicted rank 0" above every
/// "rank 0".
std::string chrome_trace(const simulate::Simulation& predicted,
                         const simulate::Simulation& measured, const chain::Chain& chain);

}  // namespace trireme::report
