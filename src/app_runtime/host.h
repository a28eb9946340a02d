// The machine that this process runs on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

namespace trireme::app {

/// All of its memory, or what this process's container may have of it.
Bytes machine_memory();

}  // namespace trireme::app
