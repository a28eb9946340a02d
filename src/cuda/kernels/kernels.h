// Trireme's own fused GPU operators, for what LibTorch does in several passes over memory. They
// have the names that src/model/device_kernels.h asks LibTorch's dispatcher for (library
// "trireme").
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::kernels {

/// Builds the kernels for GPU `device`, the current one, unless that was done before, and registers
/// the operators. Does nothing where TRIREME_OWN_KERNELS is set to a value other than 1 (0:
/// LibTorch's kernels are used; emulated GPUs register operators of their own). Throws DeviceError.
void install(int device);

}  // namespace trireme::kernels
