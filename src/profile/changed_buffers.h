// Detects layers whose training output depends on buffers that their forward changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layer_cost.h"

namespace trireme::profile {

/// Whether the layer, run again on the same input, gives a different output because its forward
/// changed a buffer: a recomputed forward would, too. Restores the buffers.
bool gives_what_it_has_changed(const Subject& subject);

}  // namespace trireme::profile
