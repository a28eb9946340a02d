// Calls of the CUDA runtime: an error becomes a DeviceError that says which call and why.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace trireme::tier {

/// Throws DeviceError "CALL: out of memory" unless `status` is cudaSuccess. An error that belongs
/// to this call alone is also taken off the runtime's hands, so that it does not show up again.
void check(cudaError_t status, std::string_view call);

/// Whether `data` is in a GPU's memory.
bool is_device_memory(const void* data);

}  // namespace trireme::tier
