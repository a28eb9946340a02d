// Numbers as they stand in files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trireme::support {

/// `value` as `bytes` bytes, the lowest first.
inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

}  // namespace trireme::support
