// SPDX-License-Identifier: Apache-2.0
#include "kernel_names.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace emulated {

std::unordered_map<const void*, std::string>& kernel_names() {
  static auto* const names = new std::unordered_map<const void*, std::string>;
  return *names;
}

cudaError_t refuse_kernel(const void* host_function) {
  static std::mutex mutex;
  static std::unordered_set<const void*> refused;
  const std::lock_guard lock(mutex);
  if (!refused.insert(host_function).second) return cudaErrorNotSupported;
  const auto found = kernel_names().find(host_function);
  const std::string name = found == kernel_names().end() ? "of no name" : found->second;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  std::fprintf(stderr, "emulated GPU: the kernel %s cannot run here\n",
               readable ? readable.get() : name.c_str());
  return cudaErrorNotSupported;
}

}  // namespace emulated
