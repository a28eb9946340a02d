// A nameless file of fixed size, for the offload tier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace trireme::tier {

/// Different positions may be read and written by several threads.
class StoreFile {
 public:
  /// Reserves `size` bytes on the disk of `folder`; a `rate` above 0 slows it down. Throws Error.
  StoreFile(std::filesystem::path folder, std::int64_t size, BytesPerSecond rate);
  ~StoreFile();
  StoreFile(const StoreFile&) = delete;
  StoreFile& operator=(const StoreFile&) = delete;

  void write(std::int64_t offset, std::span<const std::byte> bytes) const;
  void read(std::int64_t offset, std::span<std::byte> bytes) const;
  int descriptor() const { return descriptor_; }

 private:
  void be_slow(std::size_t bytes) const;

  std::filesystem::path folder_;
  BytesPerSecond rate_;
  int descriptor_ = -1;
};

}  // namespace trireme::tier
