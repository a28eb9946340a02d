// SPDX-License-Identifier: Apache-2.0
#include "tier/cuda_calls.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <c10/cuda/CUDAGuard.h>

namespace trireme::tier {

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw DeviceError(concat(call, ": ", cudaGetErrorString(status)));
}

bool is_device_memory(const void* data, c10::DeviceIndex device) {
  const c10::cuda::CUDAGuard on_device(device);
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice;
}

}  // namespace trireme::tier
