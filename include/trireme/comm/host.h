// The machine that this process runs on, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::comm {

std::string host_name();

}  // namespace trireme::comm
