// Loading libtrireme_cuda.so when a job asks for it. A job on CPU neither needs the NVIDIA
// libraries nor pays for loading them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/cuda_part.h"

#include <filesystem>

namespace trireme::device {

/// Makes LibTorch, cuDNN and cuBLAS use deterministic kernels only, which give the same bits every
/// time; an operator that has none throws. Call before anything is computed on a GPU and before
/// threads are started: it sets an environment variable.
void use_deterministic_kernels();

/// Path of the library: next to the file that holds this code (own_file.h). It need not exist.
std::filesystem::path cuda_library();

/// Loads the library at cuda_library(). Call before anything asks LibTorch whether it has
/// CUDA: it remembers the answer. Throws InputError that says what is missing and what to do: the
/// library, the NVIDIA libraries, the driver, a device. Later calls return what the first returned.
CudaLibrary& load_cuda();

/// As above, with a library at another path; the result is not remembered.
CudaLibrary& load_cuda(const std::filesystem::path& library);

/// Opens device `index` of the library at cuda_library() and makes it current for this
/// thread.
CudaPart& open_cuda(int index = 0);

}  // namespace trireme::device
