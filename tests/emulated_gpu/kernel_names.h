// CUDA kernels that LibTorch registers: known by name, so that a launch can be refused by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <driver_types.h>

#include <string>
#include <unordered_map>

namespace emulated {

/// By the address of the host function that launches it; written while libraries are loaded.
std::unordered_map<const void*, std::string>& kernel_names();

/// Says which kernel was launched, once for each.
cudaError_t refuse_kernel(const void* host_function);

}  // namespace emulated
