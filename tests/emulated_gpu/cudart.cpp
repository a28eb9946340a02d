// Functions of the CUDA runtime that LibTorch and Trireme call, on the emulated devices. They
// replace libcudart's by LD_PRELOAD; functions that are missing here fail there for lack of a
// driver.
// SPDX-License-Identifier: Apache-2.0
#include "device.h"
#include "kernel_names.h"
#include "timed.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace emulated {
namespace {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t result(cudaError_t error) {
  if (error == cudaSuccess && Machine::get().has_fault()) error = cudaErrorIllegalAddress;
  // cudaErrorNotReady is not kept: it is an answer, not an error.
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

Event& event_of(cudaEvent_t event) {
  return *reinterpret_cast<Event*>(event);
}

MemoryKind kind_of(const void* memory) {
  const auto block = Machine::get().map().find(memory);
  return block ? block->kind : MemoryKind::kPageable;
}

/// Freshly mapped pages, filled so that every float is a NaN: a read of uninitialized memory is
/// noticed.
void* take_pages(std::size_t size) {
  void* const pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  if (!is_timed()) std::memset(pages, 0xFF, size);
  return pages;
}

/// The thread that runs host functions of timed streams, which end whatever they do.
class HostFunctions {
 public:
  static HostFunctions& get() {
    static auto* const functions = new HostFunctions;
    return *functions;
  }
  void give(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(has_thread_, true)) std::thread([this] { work(); }).detach();
    left_.push_back(std::move(function));
    changed_.notify_one();
  }

 private:
  [[noreturn]] void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !left_.empty(); });
      const std::function<void()> run = std::move(left_.front());
      left_.pop_front();
      lock.unlock();
      run();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> left_;
  bool has_thread_ = false;
};

/// One side of a copy: its memory must be of the same kind when it is done as when it was queued.
struct Side {
  const void* memory;
  MemoryKind kind;

  bool is_there(std::size_t size) const {
    return kind == MemoryKind::kPageable || Machine::get().map().is_all(memory, size, kind);
  }
};

cudaError_t copy(void* to, const void* from, std::size_t size, Stream& stream, bool waits) {
  if (size == 0) return result(cudaSuccess);
  const Side target{to, kind_of(to)}, source{from, kind_of(from)};
  const bool is_within = target.kind == MemoryKind::kDevice && source.kind == MemoryKind::kDevice;
  const auto move = [=] {
    if (!target.is_there(size) || !source.is_there(size)) {
      return Machine::get().fault(
          "a copy of " + std::to_string(size) +
          " B touches memory that was given back, or was never taken, on its " +
          (target.is_there(size) ? "source's" : "target's") + " side");
    }
    if (!is_timed() || size <= kMovedBytes)
      std::memmove(to, from, size);
    else if (target.kind == MemoryKind::kPageable)
      std::memset(to, 0, size);
  };
  Link* const link =
      is_within ? nullptr : &link_of(stream.device(), target.kind == MemoryKind::kDevice);
  stream.give(move, time_of_copy(size, is_within), link);
  // Pageable memory is copied before the call returns.
  if (waits || target.kind == MemoryKind::kPageable || source.kind == MemoryKind::kPageable)
    stream.finish_for_host();
  return result(cudaSuccess);
}

/// LibTorch's operators on these devices. Loaded late: a program that asks for devices has loaded
/// LibTorch.
void load_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    Dl_info self{};
    if (::dladdr(reinterpret_cast<void*>(&load_kernels), &self) == 0) return;
    const std::string library =
        (std::filesystem::path(self.dli_fname).parent_path() / "libemulated_kernels.so").string();
    if (::dlopen(library.c_str(), RTLD_NOW) == nullptr)
      std::fprintf(stderr, "emulated GPU: %s\n", ::dlerror());  // NOLINT(concurrency-mt-unsafe)
  });
}

}  // namespace

Stream& stream_of(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
    return Machine::get().standard_stream(current_device);
  return *reinterpret_cast<Stream*>(stream);
}

}  // namespace emulated

using emulated::Machine;
using emulated::MemoryKind;
using emulated::result;

extern "C" {

// ---- devices

cudaError_t cudaGetDeviceCount(int* count) {
  emulated::load_kernels();
  *count = Machine::get().devices();
  return result(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return result(cudaSuccess);
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return result(cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = emulated::current_device;
  return result(cudaSuccess);
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= Machine::get().devices()) return result(cudaErrorInvalidDevice);
  emulated::current_device = device;
  return result(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= Machine::get().devices()) return result(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated");
  std::memcpy(properties->uuid.bytes, "emulated", 8);
  std::memcpy(properties->uuid.bytes + 8, &device, sizeof device);
  properties->totalGlobalMem = Machine::get().memory_of_device();
  properties->major = 9;
  properties->warpSize = 32;
  properties->multiProcessorCount = 1;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerBlock = std::size_t{48} << 10;
  properties->pciBusID = device;
  return result(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return result(cudaSuccess);
}
cudaError_t cudaDeviceGetPCIBusId(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), "0000:%02x:00.0", device);
  return result(cudaSuccess);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int /*device*/, int /*peer*/) {
  *can = 0;
  return result(cudaSuccess);
}
cudaError_t cudaDeviceSynchronize() {
  Machine::get().finish(emulated::current_device);
  return result(cudaSuccess);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return result(cudaSuccess);
}

// ---- errors

cudaError_t cudaGetLastError() {
  return std::exchange(emulated::last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return emulated::last_error;
}

// ---- memory

cudaError_t cudaMalloc(void** memory, std::size_t size) {
  const int device = emulated::current_device;
  *memory = nullptr;
  if (size == 0) return result(cudaSuccess);
  if (!Machine::get().take(device, size)) return result(cudaErrorMemoryAllocation);
  *memory = emulated::take_pages(size);
  Machine::get().map().add(*memory, {size, MemoryKind::kDevice, device});
  return result(cudaSuccess);
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return result(cudaSuccess);
  const auto found = Machine::get().map().find(memory);
  if (!found) return result(cudaErrorInvalidValue);
  Machine::get().finish(found->device);
  Machine::get().map().remove(memory);
  Machine::get().give_back(found->device, found->size);
  ::munmap(memory, found->size);
  return result(cudaSuccess);
}
cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* total) {
  *left = Machine::get().left(emulated::current_device);
  *total = Machine::get().memory_of_device();
  return result(cudaSuccess);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t size, unsigned /*flags*/) {
  *memory = emulated::take_pages(size);
  if (*memory == nullptr) return result(cudaErrorMemoryAllocation);
  Machine::get().map().add(*memory, {size, MemoryKind::kPinned, 0});
  return result(cudaSuccess);
}
cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return result(cudaSuccess);
  Machine::get().finish_all();
  const auto block = Machine::get().map().remove(memory);
  if (!block || block->kind != MemoryKind::kPinned) return result(cudaErrorInvalidValue);
  ::munmap(memory, block->size);
  return result(cudaSuccess);
}
cudaError_t cudaHostRegister(void* memory, std::size_t size, unsigned /*flags*/) {
  if (emulated::kind_of(memory) != MemoryKind::kPageable)
    return result(cudaErrorHostMemoryAlreadyRegistered);
  Machine::get().map().add(memory, {size, MemoryKind::kPinned, 0});
  return result(cudaSuccess);
}
cudaError_t cudaHostUnregister(void* memory) {
  Machine::get().finish_all();
  return result(Machine::get().map().remove(memory) ? cudaSuccess
                                                    : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  const auto block = Machine::get().map().find(memory);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -2;
  if (!block) return result(cudaSuccess);
  attributes->type = block->kind == MemoryKind::kDevice ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->device = block->device;
  attributes->devicePointer = const_cast<void*>(memory);
  if (block->kind == MemoryKind::kPinned) attributes->hostPointer = const_cast<void*>(memory);
  return result(cudaSuccess);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  // A side that is declared as device memory and is not.
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (size > 0 && ((from_device && emulated::kind_of(from) != MemoryKind::kDevice) ||
                   (to_device && emulated::kind_of(to) != MemoryKind::kDevice)))
    return result(cudaErrorInvalidValue);
  return emulated::copy(to, from, size, emulated::stream_of(stream), /*waits=*/false);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size, cudaMemcpyKind /*kind*/) {
  return emulated::copy(to, from, size, emulated::stream_of(nullptr), /*waits=*/true);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t size, cudaStream_t stream) {
  const auto set = [=] {
    if (!emulated::is_timed()) std::memset(memory, value, size);
  };
  emulated::stream_of(stream).give(set, emulated::time_of_copy(size / 2, true));
  return result(cudaSuccess);
}
cudaError_t cudaMemset(void* memory, int value, std::size_t size) {
  cudaMemsetAsync(memory, value, size, nullptr);
  emulated::stream_of(nullptr).finish_for_host();
  return result(cudaSuccess);
}

// ---- streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/,
                                         int /*priority*/) {
  *stream = reinterpret_cast<cudaStream_t>(&Machine::get().make_stream(emulated::current_device));
  return result(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulated::stream_of(stream).finish_for_host();
  return result(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  emulated::stream_of(stream).finish_for_host();
  return result(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return result(emulated::stream_of(stream).is_done() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  emulated::event_of(event).block(emulated::stream_of(stream));
  return result(cudaSuccess);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (emulated::is_timed())
    emulated::HostFunctions::get().give([=] { function(data); });
  else
    emulated::stream_of(stream).give([=] { function(data); });
  return result(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t /*stream*/, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return result(cudaSuccess);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t /*stream*/, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* /*graph*/,
                                     const cudaGraphNode_t** /*dependencies*/,
                                     const cudaGraphEdgeData** /*edges*/, std::size_t* /*count*/) {
  *status = cudaStreamCaptureStatusNone;
  if (id != nullptr) *id = 0;
  return result(cudaSuccess);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* /*mode*/) {
  return result(cudaSuccess);
}

// ---- events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = reinterpret_cast<cudaEvent_t>(new emulated::Event);
  return result(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &emulated::event_of(event);
  return result(cudaSuccess);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
  emulated::event_of(event).record(emulated::stream_of(stream));
  return result(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return result(emulated::event_of(event).is_reached() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  emulated::event_of(event).finish_for_host();
  return result(cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  emulated::Event &from = emulated::event_of(start), &to = emulated::event_of(end);
  if (!from.is_recorded() || !to.is_recorded()) return result(cudaErrorInvalidResourceHandle);
  if (!from.is_reached() || !to.is_reached()) return result(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to.time() - from.time()).count();
  return result(cudaSuccess);
}

// ---- kernels: none runs here. LibTorch's operators are those of kernels.cpp.

void __cudaRegisterFunction(void** /*binary*/, const char* host, char* /*device*/, const char* name,
                            int /*threads*/, uint3* /*thread*/, uint3* /*block*/, dim3* /*threads*/,
                            dim3* /*blocks*/, int* /*size*/) {
  emulated::kernel_names()[host] = name;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return result(cudaSuccess);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 /*blocks*/, dim3 /*threads*/,
                               void** /*arguments*/, std::size_t /*shared*/,
                               cudaStream_t /*stream*/) {
  return result(emulated::refuse_kernel(kernel));
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* /*config*/, const void* kernel,
                                void** /*arguments*/) {
  return result(emulated::refuse_kernel(kernel));
}

void emulated_gpu_busy(void* stream, double seconds) {
  const std::chrono::duration<double> time(seconds);
  emulated::stream_of(static_cast<cudaStream_t>(stream))
      .give([] {}, std::chrono::duration_cast<emulated::Clock::duration>(time));
}

}  // extern "C"
