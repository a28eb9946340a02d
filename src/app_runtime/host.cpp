// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <unistd.h>

#include <array>

namespace trireme::app {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

Bytes machine_memory() {
  return Bytes(std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGE_SIZE)});
}

}  // namespace trireme::app
