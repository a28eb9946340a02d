// Memory-mapped file: pages are read when they are touched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace trireme::data {

/// Read-only. The file must not become shorter while it is mapped (the kernel answers with SIGBUS).
class MappedFile {
 public:
  /// Throws InputError that names the file: cannot be opened, is empty.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Releases the pages that were read; they are read again when touched.
  void let_go() const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trireme::data
