// Calls of the CUDA runtime: an error becomes a DeviceError that says which call and why.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <string_view>

namespace trireme::tier {

/// Throws DeviceError "CALL: out of memory" unless `status` is cudaSuccess. An error that belongs
/// to this call alone is also taken off the runtime's hands, so that it does not show up again.
void check(cudaError_t status, std::string_view call);

/// Whether `data` is in a GPU's memory. The driver is asked on `device`: the question makes a
/// context there, and a thread's own device is at first number 0.
bool is_device_memory(const void* data, c10::DeviceIndex device);

}  // namespace trireme::tier
