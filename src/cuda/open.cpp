// The entry point of libtrireme_cuda.so.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm_nccl/channel.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/device/cuda_part.h"
#include "trireme/tier_cuda/cuda_calls.h"
#include "trireme/tier_cuda/cuda_memory.h"
#include "trireme/tier_cuda/stream_copies.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>

namespace trireme::device {
namespace {

class OpenedCuda final : public CudaPart {
 public:
  explicit OpenedCuda(int index) : index_(index) {
    tier::check(cudaGetDeviceProperties(&properties_, index), "cudaGetDeviceProperties");
  }

  int index() const override { return index_; }
  std::string describe() const override {
    return concat("GPU ", index_, " (", properties_.name, ", ", to_text(total_memory()), ")");
  }
  Bytes total_memory() const override {
    return Bytes(static_cast<std::int64_t>(properties_.totalGlobalMem));
  }
  std::unique_ptr<tier::DeviceMemory> open_memory(std::string name) override {
    return std::make_unique<tier::CudaMemory>(std::move(name), c10_index());
  }
  std::unique_ptr<tier::ValueCopies> make_copies(Bytes host) override {
    return std::make_unique<tier::StreamCopies>(c10_index(), host);
  }
  std::unique_ptr<comm::Channel> make_channel(comm::Channel& control,
                                              const comm::ChannelOptions& options,
                                              const std::vector<comm::Link>& links) override {
    return comm::make_nccl_channel(control, options, links, index_);
  }

 private:
  c10::DeviceIndex c10_index() const { return static_cast<c10::DeviceIndex>(index_); }

  int index_;
  cudaDeviceProp properties_{};
};

/// Throws DeviceError that says what is missing.
void require_device(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    throw DeviceError(concat(driver == 0 ? "this machine has no NVIDIA driver (libcuda.so.1)"
                                         : concat("the NVIDIA driver is too old: it is for CUDA ",
                                                  driver / 1000, '.', driver % 1000 / 10),
                             "; CUDA ", CUDART_VERSION / 1000, '.', CUDART_VERSION % 1000 / 10,
                             " says: ", cudaGetErrorString(status)));
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    throw DeviceError(concat("the driver finds no GPU, or CUDA_VISIBLE_DEVICES hides it: ",
                             cudaGetErrorString(cudaErrorNoDevice)));
  }
  tier::check(status, "cudaGetDeviceCount");
  if (index < 0 || index >= count) {
    throw DeviceError(concat("GPU ", index, " is asked for, but this machine has ", count,
                             ": every rank on a machine needs a GPU of its own"));
  }
}

CudaPart* open(int version, int index) {
  if (version != kCudaPartVersion) {
    throw DeviceError(concat("libtrireme_cuda.so is of another build (", int{kCudaPartVersion},
                             ", not ", version, "): build both again"));
  }
  require_device(index);
  if (!at::globalContext().hasCUDA()) {
    throw DeviceError(
        "LibTorch was asked for CUDA before libtrireme_cuda.so was loaded, or has none");
  }
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  return new OpenedCuda(index);  // never freed: LibTorch's CUDA part lives as long
}

}  // namespace
}  // namespace trireme::device

extern "C" trireme::device::CudaPart* trireme_cuda_open(int version, int index, char* problem,
                                                        std::size_t size);

extern "C" trireme::device::CudaPart* trireme_cuda_open(int version, int index, char* problem,
                                                        std::size_t size) {
  try {
    return trireme::device::open(version, index);
  } catch (const c10::Error& error) {
    std::snprintf(problem, size, "%s", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::snprintf(problem, size, "%s", error.what());
  }
  return nullptr;
}
