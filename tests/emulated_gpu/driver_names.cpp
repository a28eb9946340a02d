// Functions of the CUDA driver that LibTorch's libraries must find to be loaded, and that are never
// called here. Without cuda.h, whose types are not needed. The library has the driver's name,
// libcuda.so.1, because one of LibTorch's libraries loads it by that name.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

namespace {

int refuse(const char* name) {
  constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
  std::fprintf(stderr, "emulated GPU: the driver's %s was called, which is not emulated\n", name);
  return kNotSupported;
}

}  // namespace

#define TRIREME_REFUSED(name) \
  int name() {                \
    return refuse(#name);     \
  }

extern "C" {
TRIREME_REFUSED(cuCtxSetCurrent)
TRIREME_REFUSED(cuDevicePrimaryCtxRetain)
TRIREME_REFUSED(cuFuncGetAttribute)
TRIREME_REFUSED(cuFuncSetAttribute)
TRIREME_REFUSED(cuFuncSetCacheConfig)
TRIREME_REFUSED(cuLaunchCooperativeKernel)
TRIREME_REFUSED(cuLaunchKernel)
TRIREME_REFUSED(cuLinkAddData_v2)
TRIREME_REFUSED(cuLinkComplete)
TRIREME_REFUSED(cuLinkCreate_v2)
TRIREME_REFUSED(cuMemExportToShareableHandle)
TRIREME_REFUSED(cuMemGetAllocationPropertiesFromHandle)
TRIREME_REFUSED(cuMemImportFromShareableHandle)
TRIREME_REFUSED(cuMemRetainAllocationHandle)
TRIREME_REFUSED(cuMemsetD32Async)
TRIREME_REFUSED(cuModuleGetFunction)
TRIREME_REFUSED(cuModuleLoad)
TRIREME_REFUSED(cuModuleLoadData)
TRIREME_REFUSED(cuModuleLoadDataEx)
TRIREME_REFUSED(cuModuleUnload)
TRIREME_REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
TRIREME_REFUSED(cuPointerGetAttribute)
TRIREME_REFUSED(cuStreamWriteValue32)
TRIREME_REFUSED(cuTensorMapEncodeTiled)
}
