// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/host.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace trireme::ranks {

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

Seconds process_age() {
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return Seconds(0);
  std::istringstream fields(text.substr(name_end + 2));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {  // field 22 is the start time in clock ticks
  }
  std::ifstream uptime("/proc/uptime");
  double up = 0;
  uptime >> up;
  return Seconds(up - std::atof(field.c_str()) / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

}  // namespace trireme::ranks
