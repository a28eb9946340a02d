// CUDA kernels that LibTorch registers: known by name, so that a launch can be refused by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <driver_types.h>

#include <string>
#include <unordered_map>

namespace emulated {

/// Names by the address of the host function that launches the kernel; written while libraries are
/// loaded.
std::unordered_map<const void*, std::string>& kernel_names();

/// Reports which kernel was launched, once for each.
cudaError_t refuse_kernel(const void* host_function);

}  // namespace emulated
