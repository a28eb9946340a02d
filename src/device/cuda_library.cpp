// SPDX-License-Identifier: Apache-2.0
#include "trireme/device/cuda_library.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/device/own_file.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <system_error>

namespace trireme::device {
namespace {

constexpr const char* kLibrary = "libtrireme_cuda.so";
constexpr const char* kEntryPoint = "trireme_cuda_open";
constexpr const char* kWithoutGpu = "; without a GPU, compute on the CPU: device: cpu";

OpenCudaLibrary* entry_point_of(const std::filesystem::path& library);

}  // namespace

void use_deterministic_kernels() {
  // cuBLAS sums in a fixed order only in workspaces of its own; LibTorch refuses others.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe)
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Every byte is written before it is read.
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

std::filesystem::path cuda_library() {
  return own_file().parent_path() / kLibrary;
}

CudaLibrary& load_cuda() {
  static std::mutex mutex;
  static CudaLibrary* loaded = nullptr;
  const std::lock_guard lock(mutex);
  // Streams that share one of a GPU's few hardware queues (8 by default, 32 at most) wait for one
  // another: a send that waits for its receive, on a peer whose receive is queued after a send,
  // would deadlock. Overrides the environment, where trainers that rely on ordered streams set
  // fewer.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32",  // NOLINT(concurrency-mt-unsafe)
           /*overwrite=*/1);
  if (loaded == nullptr) loaded = &load_cuda(cuda_library());
  return *loaded;
}

CudaLibrary& load_cuda(const std::filesystem::path& library) {
  OpenCudaLibrary* const open = entry_point_of(library);
  std::array<char, 1024> problem{};
  CudaLibrary* const loaded = open(kCudaPartVersion, problem.data(), problem.size());
  if (loaded == nullptr) throw InputError(concat("device: cuda: ", problem.data(), kWithoutGpu));
  return *loaded;
}

CudaPart& open_cuda(int index) {
  CudaPart& part = load_cuda().open(index);
  part.use();
  return part;
}

namespace {

OpenCudaLibrary* entry_point_of(const std::filesystem::path& library) {
  std::error_code failure;
  if (!std::filesystem::exists(library, failure)) {
    throw InputError(concat("device: cuda: this build has no CUDA part (", library.string(),
                            " is missing): TRIREME_CUDA=1 ./launch/build builds it", kWithoutGpu));
  }
  // Global: LibTorch's CUDA operators find each other by name.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe)
    throw InputError(concat("device: cuda: ", library.string(), " cannot be loaded: ",
                            reason == nullptr ? "no reason was given" : reason,
                            ": TRIREME_CUDA=1 ./launch/install fetches the NVIDIA libraries that "
                            "belong to LibTorch; others are found through LD_LIBRARY_PATH",
                            kWithoutGpu));
  }
  void* const symbol = ::dlsym(handle, kEntryPoint);
  if (symbol == nullptr) {
    throw InputError(concat("device: cuda: ", library.string(), " has no ", kEntryPoint,
                            ": it is not of this build"));
  }
  return reinterpret_cast<OpenCudaLibrary*>(symbol);
}

}  // namespace
}  // namespace trireme::device
