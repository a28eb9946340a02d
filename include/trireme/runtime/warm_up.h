// One-time initialization of a device's libraries, done before anything is measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/place.h"

namespace trireme::runtime {

/// Runs small matrix products and their backward in every precision, so that libraries allocate now
/// (workspaces of this thread and of autograd's own). Everything else is freed again.
void warm_up(const device::Place& place);

}  // namespace trireme::runtime
