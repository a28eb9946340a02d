// The GPU kernels of the folder kernels, compiled for one GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <string>

namespace trireme::kernels {

enum class Kernel {
  kLogLikelihood,
  kColumnParts,
  kSumParts,
  kSideBySide,
  kNorm,
  kNorm2,
  kNorm3,
  kNorm4,
  kNorm5,
  kNorm7,
  kNorm8,
  kNormBackward,
  kNormBackwardAgain,
  kWideNormBackward,
  kWideNormBackwardAgain,
  kTurn,
  kGelu,
  kGeluBackward,
  kSwiglu,
  kSwigluBackward,
  kAccumulate,
  kAdamw,
};

/// Compiles the kernels to machine code for compute capability `major`.`minor`, or to PTX, from
/// which the driver makes such code, where NVRTC does not know it. Needs no GPU. Throws DeviceError
/// with NVRTC's log.
std::string build(int major, int minor);

class BuiltKernels {
 public:
  /// For the current device, which is `device`.
  explicit BuiltKernels(int device);

  int multiprocessors() const { return multiprocessors_; }

  /// Launches on LibTorch's current stream of the current device. Arguments must have exactly the
  /// types of the kernel's parameters.
  template <class... Arguments>
  void launch(Kernel kernel, dim3 blocks, unsigned threads, Arguments... arguments) const {
    std::array<void*, sizeof...(arguments)> places{&arguments...};
    launch(kernel, blocks, threads, places.data());
  }

 private:
  static constexpr int kKernels = 22;

  void launch(Kernel kernel, dim3 blocks, unsigned threads, void** arguments) const;

  std::array<cudaKernel_t, kKernels> kernels_{};
  int multiprocessors_ = 0;
};

}  // namespace trireme::kernels
