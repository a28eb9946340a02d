// What the transport holds on a rank's device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/core/units.h"

#include <vector>

namespace trireme::simulate {

/// Bytes that the transport of `rank` holds in addition to the program's values:
/// platform.channel_buffers times input and gradient of the cuts at either end of the rank's
/// layers; of several cuts that go from one rank to another those of the largest, since they share
/// a stream (docs/memory.md). `rank_of_layer` as in program::Program.
Bytes channel_bytes(const chain::Chain& chain, const chain::Platform& platform,
                    const std::vector<int>& rank_of_layer, int rank);

}  // namespace trireme::simulate
