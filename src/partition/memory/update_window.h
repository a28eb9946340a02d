// What updates among passes have on a rank's device: the optimiser's state on its way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// The least window in which state can come in parts.
Bytes least_window(const chain::Chain& chain);

/// Of optimiser state on its way, what a rank holds that updates layers among passes.
Bytes update_window(const Question& question);

/// The same of a rank with these runs of layers: nothing where it has no such layers, or no state
/// away.
Bytes update_window(const Question& question, int rank, const LayerRuns& runs);

}  // namespace trireme::partition
