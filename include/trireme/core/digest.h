// Digests: 128-bit xxHash in hex. For telling values apart, not for security.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// 32 hex digits over `size` bytes at `data`.
std::string digest(const void* data, std::size_t size);
std::string digest(std::string_view text);

/// A 64-bit mix of the words, order-dependent, equal on every machine: keys of random streams.
std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0, std::uint64_t d = 0);

}  // namespace trireme
