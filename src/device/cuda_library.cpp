// SPDX-License-Identifier: Apache-2.0
#include "trireme/device/cuda_library.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/library.h"

#include <ATen/Context.h>

#include <array>
#include <cstdlib>
#include <mutex>

namespace trireme::device {
namespace {

constexpr const char* kLibrary = "libtrireme_cuda.so";
constexpr const char* kEntryPoint = "trireme_cuda_open";
constexpr const char* kWithoutGpu = "; without a GPU, compute on the CPU: device: cpu";

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
  return io::own_file().parent_path() / kLibrary;
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
  const io::LibraryHelp help{
      .if_missing = "this build has no CUDA part: TRIREME_CUDA=1 ./launch/build builds it",
      .if_not_loadable =
          "TRIREME_CUDA=1 ./launch/install fetches the NVIDIA libraries that belong to LibTorch; "
          "others are found through LD_LIBRARY_PATH"};
  std::array<char, 1024> problem{};
  try {
    auto* const open =
        reinterpret_cast<OpenCudaLibrary*>(io::load_entry_point(library, kEntryPoint, help));
    if (CudaLibrary* const loaded = open(kCudaPartVersion, problem.data(), problem.size()))
      return *loaded;
  } catch (const InputError& error) {
    throw InputError(concat("device: cuda: ", error.what(), kWithoutGpu));
  }
  throw InputError(concat("device: cuda: ", problem.data(), kWithoutGpu));
}

CudaPart& open_cuda(int index) {
  CudaPart& part = load_cuda().open(index);
  part.use();
  return part;
}

}  // namespace trireme::device
