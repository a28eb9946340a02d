// Loading libtrireme_cuda.so when a job asks for it. A job on CPU neither needs the NVIDIA
// libraries nor pays for loading them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/cuda_part.h"

#include <filesystem>

namespace trireme::device {

/// Loads the library that lies beside this executable and opens the CUDA device of that index.
/// Before anything asks LibTorch whether it has CUDA: it remembers the answer. Throws DeviceError
/// that says what is missing and what to do: the library, the NVIDIA libraries, the driver, the
/// device. Later calls give what the first gave; they must name the same index.
CudaPart& open_cuda(int index = 0);

/// The same with a library somewhere else; nothing is remembered.
CudaPart& open_cuda(int index, const std::filesystem::path& library);

}  // namespace trireme::device
