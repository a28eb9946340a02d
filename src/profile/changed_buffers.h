// Layers whose output in training depends on buffers that their forward changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layer_cost.h"

namespace trireme::profile {

/// Whether the layer, run again on the same input, gives something else, because its forward has
/// changed a buffer: a repeated forward would, too. Leaves the buffers as they were.
bool gives_what_it_has_changed(const Subject& subject);

}  // namespace trireme::profile
