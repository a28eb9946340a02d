// Between a device's memory and the file of an offload store, which a copy engine cannot reach: two
// buffers that it can reach take turns, so that the disk works while the engine copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/tier/offload_store.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::tier {

/// Two buffers in host memory of one size, and the engine that copies between them and a device.
/// Copies run in the order in which they were begun.
class EngineBuffers {
 public:
  virtual ~EngineBuffers() = default;
  EngineBuffers() = default;
  EngineBuffers(const EngineBuffers&) = delete;
  EngineBuffers& operator=(const EngineBuffers&) = delete;

  virtual std::array<std::span<std::byte>, 2> buffers() const = 0;
  /// Begins to copy `size` bytes of the device to the buffer, or from it.
  virtual void begin_out(std::size_t buffer, const std::byte* from, std::size_t size) = 0;
  virtual void begin_in(std::size_t buffer, std::byte* to, std::size_t size) = 0;
  /// Until the last copy of that buffer has ended.
  virtual void wait(std::size_t buffer) = 0;
};

/// A part of a value that is in the file of a store, or shall be: `size` bytes from `device` on.
struct FilePart {
  std::int64_t offset = 0;  ///< in the store
  std::int64_t size = 0;
  std::byte* device = nullptr;
};

enum class CopyDirection { kOut, kIn };

/// Returns when all bytes are where they belong. Throws what the store and the engine throw.
void relay(CopyDirection direction, std::span<const FilePart> parts, OffloadStore& store,
           EngineBuffers& engine);

}  // namespace trireme::tier
