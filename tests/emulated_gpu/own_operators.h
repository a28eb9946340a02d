// The operators of src/kernels_cuda on an emulated GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace emulated {

/// Unless TRIREME_OWN_KERNELS=0.
bool wants_own_operators();

/// Makes them known, with implementations for the CPU and for tensors without values: their names.
/// These compute in double and round once: they have other bits than what LibTorch's operators
/// would give, so that a program that takes them here and not there is found out.
std::vector<std::string> define_own_operators();

}  // namespace emulated
