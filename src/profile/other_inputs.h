// Layers whose tensors are as large as the values of their input say: an expert for some tokens,
// what torch.nonzero gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layer_cost.h"

namespace trireme::profile {

/// Runs the layer on inputs of the same sizes whose values are all alike (the least, the greatest,
/// on a CPU also 1). Where it takes more bytes for one of them, `cost` gets the most of each kind,
/// and loses the retape, whose bytes would be less than they may be. Whether it was so. An input on
/// which the forward fails says nothing.
bool raise_to_others(const Subject& subject, tier::DeviceMemory& account, chain::LayerCost& cost);

}  // namespace trireme::profile
