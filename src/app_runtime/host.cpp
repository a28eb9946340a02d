// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace trireme::app {

Bytes machine_memory() {
  std::int64_t bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGE_SIZE)};
  // A container's or job's limit (cgroup 2, cgroup 1), where there is one: "max" reads as none.
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::int64_t limit = 0;
    if (std::ifstream(file) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return Bytes(bytes);
}

}  // namespace trireme::app
