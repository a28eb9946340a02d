// Device memory on its way to and from a transport that reads and writes host memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/staged.h"

#include <c10/core/Device.h>

#include <memory>

namespace trireme::tier {

/// Copies of one device's memory: out on a stream of their own, in on the caller's current stream.
/// Host memory is pinned, and used again for messages of the same size.
std::unique_ptr<comm::HostCopies> make_pinned_staging(c10::DeviceIndex device);

}  // namespace trireme::tier
