// Files written and read in pieces, for data that is too large to hold in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace trireme::io {

/// A new file that is written in pieces. It is complete only after finish().
class OutputFile {
 public:
  /// Throws Error if it cannot be created or exists already.
  explicit OutputFile(std::filesystem::path file);
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;

  /// Appends. Throws Error that names the file.
  void append(std::span<const std::byte> piece);
  void append(std::string_view piece);
  /// Flushes all pieces so far to disk, not only to the operating system.
  void flush();
  /// Flushes and closes.
  void finish();

  const std::filesystem::path& path() const;
  Bytes size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A file that is read at any offset.
class InputFile {
 public:
  /// Throws InputError if it cannot be read.
  explicit InputFile(std::filesystem::path file);
  ~InputFile();
  InputFile(InputFile&&) noexcept;

  Bytes size() const;
  /// Fills `into` with the bytes from `offset` on. Throws InputError where the file ends before.
  void read(std::span<std::byte> into, std::int64_t offset) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Flushes to disk all that any process has written to the file so far, and its name. Throws Error.
void flush_file(const std::filesystem::path& file);

/// Renames a folder to its final name: others see all of it there or nothing, also after a crash,
/// if its files had been flushed. Throws Error.
void publish_folder(const std::filesystem::path& draft, const std::filesystem::path& name);

}  // namespace trireme::io
