// SPDX-License-Identifier: Apache-2.0
#include "trireme/device/own_file.h"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace trireme::device {

std::filesystem::path own_file() {
  return file_of_code(reinterpret_cast<const void*>(&own_file));
}

std::filesystem::path file_of_code(const void* address) {
  Dl_info found{};
  link_map* library = nullptr;
  void** const into = reinterpret_cast<void**>(&library);
  if (::dladdr1(address, &found, into, RTLD_DL_LINKMAP) == 0) return {};
  const std::filesystem::path path = library->l_name;
  std::error_code none;
  // The loader has no name for the program itself.
  return path.empty() ? std::filesystem::read_symlink("/proc/self/exe", none)
                      : std::filesystem::absolute(path, none);
}

}  // namespace trireme::device
