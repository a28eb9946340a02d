// Functions of the CUDA driver: virtual memory for LibTorch's expandable segments.
// SPDX-License-Identifier: Apache-2.0
#include "device.h"
#include "timed.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstring>

namespace emulated {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

/// Memory from cuMemCreate: bytes of a device without an address yet.
struct Physical {
  std::size_t size;
  int device;
};

void* address(CUdeviceptr pointer) {
  return reinterpret_cast<void*>(pointer);
}

void* reserved(void* at, std::size_t size, int protection, int flags) {
  return ::mmap(at, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

}  // namespace
}  // namespace emulated

using emulated::Machine;
using emulated::Physical;

extern "C" {

CUresult cuMemGetAllocationGranularity(std::size_t* size, const CUmemAllocationProp* /*kind*/,
                                       CUmemAllocationGranularity_flags /*option*/) {
  *size = emulated::kGranularity;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* pointer, std::size_t size, std::size_t /*alignment*/,
                             CUdeviceptr /*wish*/, unsigned long long /*flags*/) {
  void* const pages = emulated::reserved(nullptr, size, PROT_NONE, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<CUdeviceptr>(pages);
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr pointer, std::size_t size) {
  ::munmap(emulated::address(pointer), size);
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                     const CUmemAllocationProp* kind, unsigned long long /*flags*/) {
  const int device = kind->location.id;
  if (!Machine::get().take(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical{size, device});
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const auto* const physical = reinterpret_cast<const Physical*>(handle);
  Machine::get().give_back(physical->device, physical->size);
  delete physical;
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr pointer, std::size_t size, std::size_t /*offset*/,
                  CUmemGenericAllocationHandle handle, unsigned long long /*flags*/) {
  void* const pages =
      emulated::reserved(emulated::address(pointer), size, PROT_READ | PROT_WRITE, MAP_FIXED);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!emulated::is_timed()) std::memset(pages, 0xFF, size);  // as cudaMalloc here
  const int device = reinterpret_cast<const Physical*>(handle)->device;
  Machine::get().map().add(pages, {size, emulated::MemoryKind::kDevice, device});
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr /*pointer*/, std::size_t /*size*/,
                        const CUmemAccessDesc* /*access*/, std::size_t /*count*/) {
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr pointer, std::size_t size) {
  const auto block = Machine::get().map().remove(emulated::address(pointer));
  if (!block || block->size != size) return CUDA_ERROR_INVALID_VALUE;
  emulated::reserved(emulated::address(pointer), size, PROT_NONE, MAP_FIXED);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "an error of the emulated driver";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute /*attribute*/, CUdevice /*device*/) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice /*device*/, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* status) {
  *function = ::dlsym(RTLD_DEFAULT, name);
  if (status != nullptr)
    *status =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // extern "C"
