// The machine that this process runs on, and the process on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

namespace trireme::ranks {

/// The machine's memory, or the limit of this process's container.
Bytes machine_memory();

/// Time since the kernel started this process; 0 where the kernel does not say.
Seconds process_age();

}  // namespace trireme::ranks
