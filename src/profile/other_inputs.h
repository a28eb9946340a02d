// Detects layers whose tensor sizes depend on the values of their input: an expert for some tokens,
// torch.nonzero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layer_cost.h"

namespace trireme::profile {

/// Runs the layer on constant inputs of the same shapes (the minimum, the maximum, on a CPU also
/// 1). If it takes more bytes for one of them, `cost` gets the maximum of each kind, and loses its
/// retape, whose bytes could be too low. Returns whether it was raised. Inputs on which the forward
/// fails are ignored.
bool raise_to_others(const Subject& subject, tier::DeviceMemory& account, chain::LayerCost& cost);

}  // namespace trireme::profile
