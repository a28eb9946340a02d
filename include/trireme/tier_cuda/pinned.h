// Host memory that the copy engines of a GPU reach.
//
// LibTorch's own pinned allocator rounds every request up to a power of two and keeps it; a planned
// host budget needs exact bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace trireme::tier {

/// Ordinary memory, pinned as long as this lives.
class Pinned {
 public:
  /// Pins all of it now: nothing fails later for want of it. Throws Error if that cannot be; `what`
  /// is it for, `advice` what to do.
  Pinned(std::span<std::byte> memory, std::string_view what, std::string_view advice);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  std::span<std::byte> memory_;
};

}  // namespace trireme::tier
