// The entry point of libtrireme_cuda.so.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernels.h"
#include "nccl/channel.h"
#include "tier/cuda_calls.h"
#include "tier/cuda_memory.h"
#include "tier/pinned_staging.h"
#include "tier/stream_copies.h"
#include "tier/stream_marks.h"

#include "trireme/comm/staged.h"
#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/device/cuda_part.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <cstdio>
#include <exception>
#include <mutex>

namespace trireme::device {
namespace {

class OpenedCuda final : public CudaPart {
 public:
  explicit OpenedCuda(int index) : device_(c10::DeviceType::CUDA, c10_index(index)) {
    tier::check(cudaGetDeviceProperties(&properties_, index), "cudaGetDeviceProperties");
  }

  c10::Device device() const override { return device_; }
  std::string describe() const override { return concat("GPU ", index(), " (", model_name(), ")"); }
  std::string model_name() const override {
    return concat(properties_.name, ", ", to_text(total_memory()));
  }
  at::Generator make_generator() const override {
    return at::cuda::detail::createCUDAGenerator(device_.index());
  }
  at::Generator default_generator() const override {
    return at::cuda::detail::getDefaultCUDAGenerator(device_.index());
  }
  std::unique_ptr<Marks> make_marks() const override {
    return std::make_unique<tier::StreamMarks>(device_.index());
  }
  std::vector<at::Tensor> fetch(std::vector<at::Tensor> values) const override {
    for (at::Tensor& value : values) {
      if (!value.is_cpu()) continue;
      value = value.pin_memory().to(device_, value.scalar_type(), /*non_blocking=*/true);
    }
    return values;
  }
  at::Tensor landing(std::int64_t count, at::ScalarType type) const override {
    return at::empty({count}, at::TensorOptions(type).pinned_memory(true));
  }
  void enter(const std::string& range) const override { nvtxRangePushA(range.c_str()); }
  void leave() const override { nvtxRangePop(); }
  bool shows_ranges() const override { return true; }

  std::string unique_id() const override {
    return digest(&properties_.uuid, sizeof properties_.uuid);
  }
  std::string uuid() const override;
  Bytes total_memory() const override {
    return Bytes(static_cast<std::int64_t>(properties_.totalGlobalMem));
  }
  Bytes taken_by_others() const override;
  void use() override { c10::cuda::set_device(device_.index()); }
  void finish_work() override { c10::cuda::device_synchronize(); }
  void give_back_unused() override { c10::cuda::CUDACachingAllocator::emptyCache(); }

  std::unique_ptr<tier::DeviceMemory> open_memory(std::string name) override {
    return std::make_unique<tier::CudaMemory>(std::move(name), device_.index());
  }
  std::unique_ptr<tier::ValueCopies> make_copies(const tier::OffloadStoreOptions& store) override {
    return std::make_unique<tier::StreamCopies>(device_.index(), store);
  }
  std::unique_ptr<comm::Channel> make_staged_channel(comm::Channel& control) override {
    return comm::make_staged_channel(control, tier::make_pinned_staging(device_.index()));
  }
  std::unique_ptr<comm::LinkedChannel> make_channel(comm::Channel& control,
                                                    const comm::ChannelOptions& options) override {
    return comm::make_nccl_channel(control, options, index());
  }

 private:
  static c10::DeviceIndex c10_index(int index) { return static_cast<c10::DeviceIndex>(index); }

  c10::Device device_;
  cudaDeviceProp properties_{};
};

Bytes OpenedCuda::taken_by_others() const {
  const c10::cuda::CUDAGuard on_device(device_);
  std::size_t free = 0, total = 0;
  tier::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
  return Bytes(static_cast<std::int64_t>(total - free)) - Bytes(stats.reserved_bytes[kAll].current);
}

std::string OpenedCuda::uuid() const {
  std::string text = "GPU";
  for (std::size_t k = 0; k < sizeof properties_.uuid.bytes; ++k) {
    if (k == 0 || k == 4 || k == 6 || k == 8 || k == 10) text += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(properties_.uuid.bytes[k])));
    text += digits.data();
  }
  return text;
}

/// The devices of this process, opened on demand.
class OpenedLibrary final : public CudaLibrary {
 public:
  explicit OpenedLibrary(int devices) : parts_(static_cast<std::size_t>(devices)) {}

  int devices() const override { return static_cast<int>(parts_.size()); }
  CudaPart& open(int index) override;

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<OpenedCuda>> parts_;
};

CudaPart& OpenedLibrary::open(int index) {
  if (index < 0 || index >= devices()) {
    throw DeviceError(
        concat("device: cuda: GPU ", index, " is asked for, but this machine has ", devices()));
  }
  const std::lock_guard lock(mutex_);
  auto& part = parts_[static_cast<std::size_t>(index)];
  if (part) return *part;
  // Set the device first, so that nothing is allocated on any other.
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  if (!at::globalContext().hasCUDA()) {
    throw DeviceError(
        "LibTorch was asked for CUDA before libtrireme_cuda.so was loaded, or has none");
  }
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  kernels::install(index);
  part = std::make_unique<OpenedCuda>(index);
  return *part;
}

/// Number of devices. Throws DeviceError that says what is missing if there is none.
int count_devices() {
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
  return count;
}

CudaLibrary* open(int version) {
  if (version != kCudaPartVersion) {
    throw DeviceError(concat("libtrireme_cuda.so is of another build (", int{kCudaPartVersion},
                             ", not ", version, "): build both again"));
  }
  // Never freed: LibTorch's CUDA part lives as long.
  return new OpenedLibrary(count_devices());
}

}  // namespace
}  // namespace trireme::device

extern "C" trireme::device::CudaLibrary* trireme_cuda_open(int version, char* problem,
                                                           std::size_t size);

extern "C" trireme::device::CudaLibrary* trireme_cuda_open(int version, char* problem,
                                                           std::size_t size) {
  try {
    return trireme::device::open(version);
  } catch (const c10::Error& error) {
    std::snprintf(problem, size, "%s", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::snprintf(problem, size, "%s", error.what());
  }
  return nullptr;
}
