// Helpers for the tests of all transports: timeouts, recognisable bytes, ways to wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/core/digest.h"
#include "trireme/core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace trireme::comm {

using Buffer = std::vector<std::byte>;

/// A long timeout, as a whole test may take long on a loaded machine; tests that expect a timeout
/// set their own.
inline ChannelOptions patient() {
  return {Seconds(30), {}};
}
inline ChannelOptions impatient() {
  return {Seconds(0.3), {}};
}

/// Bytes that differ by size, seed and position.
inline Buffer pattern(std::size_t size, std::uint64_t seed) {
  std::vector<std::uint64_t> words(size / sizeof(std::uint64_t) + 1);
  std::uint64_t word = mix(seed, size);
  for (std::uint64_t& next : words)
    next = word = word * 6364136223846793005U + 1442695040888963407U;
  Buffer buffer(size);
  if (size > 0) std::memcpy(buffer.data(), words.data(), size);
  return buffer;
}

/// Equality that reports where bytes differ, not all of them.
inline testing::AssertionResult same_bytes(const Buffer& found, const Buffer& expected) {
  if (found.size() != expected.size())
    return testing::AssertionFailure() << found.size() << " B, not " << expected.size();
  if (found.empty() || std::memcmp(found.data(), expected.data(), found.size()) == 0)
    return testing::AssertionSuccess();
  const auto at = std::mismatch(found.begin(), found.end(), expected.begin()).first;
  return testing::AssertionFailure()
         << "different from byte " << at - found.begin() << " of " << found.size() << " on";
}

inline int next_of(const Channel& channel) {
  return (channel.rank() + 1) % channel.size();
}
inline int previous_of(const Channel& channel) {
  return (channel.rank() + channel.size() - 1) % channel.size();
}

inline std::uint64_t seed_of(int rank, int n) {
  return static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(n);
}

/// Spins until a transfer ends, without waiting in the transport.
inline void spin_until_done(Transfer& transfer) {
  while (!transfer.done()) std::this_thread::yield();
}

/// The text of the error that waiting throws, empty if it succeeds.
template <class Expected>
std::string error_of_wait(Transfer& transfer, std::string_view what) {
  try {
    transfer.wait(what);
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

}  // namespace trireme::comm
