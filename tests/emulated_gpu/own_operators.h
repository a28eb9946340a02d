// The fused operators of src/cuda/kernels on an emulated GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace emulated {

/// Whether they are used: unless TRIREME_OWN_KERNELS=0.
bool wants_own_operators();

/// Registers them, with implementations for the CPU and for tensors without values; returns their
/// names. These compute in double and round once: their bits differ from LibTorch's operators, so
/// that a program that uses them in one place and not in another is found out.
std::vector<std::string> define_own_operators();

}  // namespace emulated
