// Copies between device memory and the file of an offload store, double-buffered in host memory
// that the copy engine can access, so that the disk works while the engine copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/tier/offload_store.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::tier {

/// Two host buffers of equal size, and the engine that copies between them and a device. Copies run
/// in the order in which they were begun.
class EngineBuffers {
 public:
  virtual ~EngineBuffers() = default;
  EngineBuffers() = default;
  EngineBuffers(const EngineBuffers&) = delete;
  EngineBuffers& operator=(const EngineBuffers&) = delete;

  virtual std::array<std::span<std::byte>, 2> buffers() const = 0;
  /// Begins to copy `size` bytes from the device to the buffer, or back.
  virtual void begin_out(std::size_t buffer, const std::byte* from, std::size_t size) = 0;
  virtual void begin_in(std::size_t buffer, std::byte* to, std::size_t size) = 0;
  /// Blocks until the buffer's last copy has ended.
  virtual void wait(std::size_t buffer) = 0;
};

/// A part of a value that is stored in the store's file: `size` bytes from `device` on.
struct FilePart {
  std::int64_t offset = 0;  ///< in the store
  std::int64_t size = 0;
  std::byte* device = nullptr;
};

enum class CopyDirection { kOut, kIn };

/// Returns when all bytes are copied. Throws what the store and the engine throw.
void relay(CopyDirection direction, std::span<const FilePart> parts, OffloadStore& store,
           EngineBuffers& engine);

}  // namespace trireme::tier
