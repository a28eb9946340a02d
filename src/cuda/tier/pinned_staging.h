// Copies between device memory and pinned host memory, for a transport that only reads and writes
// host memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/staged.h"

#include <c10/core/Device.h>

#include <memory>

namespace trireme::tier {

/// Copies of one device's memory: out on a dedicated stream, in on the caller's current stream.
/// Host memory is pinned and reused for messages of the same size.
std::unique_ptr<comm::HostCopies> make_pinned_staging(c10::DeviceIndex device);

}  // namespace trireme::tier
