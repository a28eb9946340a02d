// Pinned host memory, which a GPU's copy engines access directly.
//
// LibTorch's own pinned allocator rounds every request up to a power of two and keeps it; a planned
// host budget needs exact bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace trireme::tier {

/// Pins ordinary memory while it lives.
class Pinned {
 public:
  /// Pins all of it now: nothing fails later for lack of it. Throws Error if that fails, with what
  /// it is for (`what`) and what to do (`advice`).
  Pinned(std::span<std::byte> memory, std::string_view what, std::string_view advice);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  std::span<std::byte> memory_;
};

}  // namespace trireme::tier
