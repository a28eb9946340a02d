// What a device's libraries do once, done before anything is measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/place.h"

namespace trireme::runtime {

/// Small matrix products and their backward in every precision: what the libraries behind them take
/// (workspaces of this thread and of autograd's own) is taken now. Everything else is freed again.
void warm_up(const device::Place& place);

}  // namespace trireme::runtime
