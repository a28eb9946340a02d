// Operators of Trireme's own on a GPU, for what LibTorch does in several passes over memory: the
// names that src/model/device_kernels.h asks LibTorch's dispatcher for (library "trireme").
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::kernels {

/// Builds the kernels for GPU `device`, the current one, if that has not been done, and makes the
/// operators known. Nothing is done where TRIREME_OWN_KERNELS is set to something else than 1 (0:
/// LibTorch's are used then; emulated GPUs have the operators from elsewhere). Throws DeviceError.
void install(int device);

}  // namespace trireme::kernels
