// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/host.h"

#include <unistd.h>

#include <array>

namespace trireme::comm {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

}  // namespace trireme::comm
