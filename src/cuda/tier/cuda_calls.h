// CUDA runtime calls: an error becomes a DeviceError that says which call failed and why.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <string_view>

namespace trireme::tier {

/// Throws DeviceError "CALL: out of memory" unless `status` is cudaSuccess. Also clears the
/// runtime's last error, so that one that belongs to this call alone is not reported again later.
void check(cudaError_t status, std::string_view call);

/// Whether `data` is in a GPU's memory. Asks the driver with `device` current, because the query
/// creates a context there, and a thread's current device is initially number 0.
bool is_device_memory(const void* data, c10::DeviceIndex device);

}  // namespace trireme::tier
