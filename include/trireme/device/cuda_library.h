// Loading libtrireme_cuda.so when a job asks for it. A job on CPU neither needs the NVIDIA
// libraries nor pays for loading them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/cuda_part.h"

#include <filesystem>

namespace trireme::device {

/// Kernels that may add in any order are no longer taken: LibTorch's, cuDNN's and cuBLAS's are
/// those that give the same bits every time, and an operator that has none throws. Before anything
/// is computed on a GPU, and before threads are started: it sets an environment variable.
void use_deterministic_kernels();

/// Where the library lies: beside this executable. It need not be there.
std::filesystem::path cuda_library();

/// Loads the library that lies beside this executable. Before anything asks LibTorch whether it has
/// CUDA: it remembers the answer. Throws InputError that says what is missing and what to do: the
/// library, the NVIDIA libraries, the driver, a device. Later calls give what the first gave.
CudaLibrary& load_cuda();

/// The same with a library somewhere else; nothing is remembered.
CudaLibrary& load_cuda(const std::filesystem::path& library);

/// The device of that index of the library beside this executable, for this thread, too.
CudaPart& open_cuda(int index = 0);

}  // namespace trireme::device
