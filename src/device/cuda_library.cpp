// SPDX-License-Identifier: Apache-2.0
#include "trireme/device/cuda_library.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <dlfcn.h>

#include <array>
#include <mutex>
#include <string>
#include <system_error>

namespace trireme::device {
namespace {

constexpr const char* kLibrary = "libtrireme_cuda.so";
constexpr const char* kEntryPoint = "trireme_cuda_open";

std::filesystem::path beside_executable();
OpenCudaPart* entry_point_of(const std::filesystem::path& library);

}  // namespace

CudaPart& open_cuda(int index) {
  static std::mutex mutex;
  static CudaPart* opened = nullptr;
  const std::lock_guard lock(mutex);
  if (opened == nullptr) opened = &open_cuda(index, beside_executable());
  ensure(opened->index() == index, "a process computes on one CUDA device");
  return *opened;
}

CudaPart& open_cuda(int index, const std::filesystem::path& library) {
  OpenCudaPart* const open = entry_point_of(library);
  std::array<char, 1024> problem{};
  CudaPart* const part = open(kCudaPartVersion, index, problem.data(), problem.size());
  if (part == nullptr) throw DeviceError(concat("device: cuda: ", problem.data()));
  return *part;
}

namespace {

std::filesystem::path beside_executable() {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/exe", failure).parent_path() / kLibrary;
}

OpenCudaPart* entry_point_of(const std::filesystem::path& library) {
  std::error_code failure;
  if (!std::filesystem::exists(library, failure)) {
    throw DeviceError(concat("device: cuda: this build has no CUDA part (", library.string(),
                             " is missing): TRIREME_CUDA=1 ./launch/build builds it"));
  }
  // Global: LibTorch's CUDA operators find each other by name.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe)
    throw DeviceError(concat("device: cuda: ", library.string(), " cannot be loaded: ",
                             reason == nullptr ? "no reason was given" : reason,
                             ": TRIREME_CUDA=1 ./launch/install fetches the NVIDIA libraries that "
                             "belong to LibTorch; others are found through LD_LIBRARY_PATH"));
  }
  void* const symbol = ::dlsym(handle, kEntryPoint);
  if (symbol == nullptr) {
    throw DeviceError(concat("device: cuda: ", library.string(), " has no ", kEntryPoint,
                             ": it is not of this build"));
  }
  return reinterpret_cast<OpenCudaPart*>(symbol);
}

}  // namespace
}  // namespace trireme::device
