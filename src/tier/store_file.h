// A file without a name, of a fixed size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace trireme::tier {

/// Positions may be read and written from several threads.
class StoreFile {
 public:
  /// Takes `size` bytes on the disk of `folder` at once. Throws Error.
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
