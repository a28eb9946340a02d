// SPDX-License-Identifier: Apache-2.0
#include "kernels/built_kernels.h"

#include "kernels_source.h"
#include "tier/cuda_calls.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <c10/cuda/CUDAStream.h>
#include <nvrtc.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace trireme::kernels {
namespace {

// In the order of `Kernel`.
constexpr std::array kNames{"log_likelihood",
                            "column_parts",
                            "sum_parts",
                            "side_by_side",
                            "row_norm",
                            "row_norm_2",
                            "row_norm_3",
                            "row_norm_4",
                            "row_norm_5",
                            "row_norm_7",
                            "row_norm_8",
                            "row_norm_backward",
                            "row_norm_backward_again",
                            "wide_norm_backward",
                            "wide_norm_backward_again",
                            "turn",
                            "gelu",
                            "gelu_backward",
                            "swiglu",
                            "swiglu_backward",
                            "accumulate",
                            "adamw"};

void check_nvrtc(nvrtcResult result, const std::string& what) {
  if (result == NVRTC_SUCCESS) return;
  throw DeviceError(concat("GPU kernels: ", what, ": ", nvrtcGetErrorString(result),
                           "; TRIREME_OWN_KERNELS=0 uses LibTorch's"));
}

struct Destroy {
  void operator()(nvrtcProgram program) const { nvrtcDestroyProgram(&program); }
};
using Program = std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, Destroy>;

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  if (nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS) return {};
  std::string log(size, '\0');
  if (nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return {};
  return log;
}

/// The newest architecture that NVRTC knows and that is not newer than `wanted`.
int known_architecture(int wanted) {
  int count = 0;
  check_nvrtc(nvrtcGetNumSupportedArchs(&count), "architectures");
  std::vector<int> known(static_cast<std::size_t>(count));
  check_nvrtc(nvrtcGetSupportedArchs(known.data()), "architectures");
  int newest = 0;
  for (const int one : known)
    if (one <= wanted) newest = std::max(newest, one);
  if (newest == 0)
    throw DeviceError(concat("GPU kernels: compute capability ", wanted / 10, '.', wanted % 10,
                             " is older than what NVRTC supports; TRIREME_OWN_KERNELS=0 uses "
                             "LibTorch's kernels"));
  return newest;
}

}  // namespace

std::string build(int major, int minor) {
  nvrtcProgram made = nullptr;
  check_nvrtc(nvrtcCreateProgram(&made, kKernelsSource, "trireme/kernels", 0, nullptr, nullptr),
              "program");
  const Program program(made);
  const int wanted = 10 * major + minor, known = known_architecture(wanted);
  const bool is_exact = known == wanted;
  const std::string target = concat("--gpu-architecture=", is_exact ? "sm_" : "compute_", known);
  // The last option, to compile on all cores, is not essential.
  const std::array options{target.c_str(), "--std=c++17", "--split-compile=0"};
  constexpr int kAll = static_cast<int>(options.size());
  nvrtcResult result = nvrtcCompileProgram(program.get(), kAll, options.data());
  if (result == NVRTC_ERROR_INVALID_OPTION)
    result = nvrtcCompileProgram(program.get(), kAll - 1, options.data());
  check_nvrtc(result, result == NVRTC_ERROR_COMPILATION ? log_of(program.get()) : target);
  std::size_t size = 0;
  check_nvrtc(
      is_exact ? nvrtcGetCUBINSize(program.get(), &size) : nvrtcGetPTXSize(program.get(), &size),
      "code");
  std::string code(size, '\0');
  check_nvrtc(is_exact ? nvrtcGetCUBIN(program.get(), code.data())
                       : nvrtcGetPTX(program.get(), code.data()),
              "code");
  return code;
}

BuiltKernels::BuiltKernels(int device) {
  cudaDeviceProp properties{};
  tier::check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  multiprocessors_ = properties.multiProcessorCount;
  const std::string code = build(properties.major, properties.minor);
  cudaLibrary_t library = nullptr;  // lives as long as LibTorch's CUDA part: to the end
  tier::check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
              "cudaLibraryLoadData");
  static_assert(kNames.size() == std::tuple_size_v<decltype(kernels_)>);
  for (std::size_t i = 0; i < kernels_.size(); ++i)
    tier::check(cudaLibraryGetKernel(&kernels_[i], library, kNames[i]), kNames[i]);
}

void BuiltKernels::launch(Kernel kernel, dim3 blocks, unsigned threads, void** arguments) const {
  const auto which = static_cast<std::size_t>(kernel);
  tier::check(cudaLaunchKernel(kernels_[which], blocks, dim3(threads), arguments, 0,
                               c10::cuda::getCurrentCUDAStream()),
              kNames[which]);
}

}  // namespace trireme::kernels
