// The machine that this process runs on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <string>

namespace trireme::app {

std::string host_name();
/// All of its memory.
Bytes machine_memory();

}  // namespace trireme::app
