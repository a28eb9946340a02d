// Files in pieces: what is too large to be held as a whole.
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

/// A new file that grows. Without finish() what it holds is not complete.
class OutputFile {
 public:
  /// Throws Error if it cannot be made or is there already.
  explicit OutputFile(std::filesystem::path file);
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;

  /// At the end. Throws Error that names the file.
  void append(std::span<const std::byte> piece);
  void append(std::string_view piece);
  /// All pieces so far are on disk, not only with the system.
  void flush();
  /// Flushes and closes.
  void finish();

  const std::filesystem::path& path() const;
  Bytes size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A file that is read at any place.
class InputFile {
 public:
  /// Throws InputError if it cannot be read.
  explicit InputFile(std::filesystem::path file);
  ~InputFile();
  InputFile(InputFile&&) noexcept;

  Bytes size() const;
  /// Fills `into` with what stands from `offset` on. Throws InputError where the file ends before.
  void read(std::span<std::byte> into, std::int64_t offset) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// All that was written to the file so far, by whoever, is on disk, and so is its name. Throws
/// Error.
void flush_file(const std::filesystem::path& file);

/// Gives a folder its final name: whoever looks sees all of it there or nothing, also after a
/// crash, if its files had been flushed. Throws Error.
void publish_folder(const std::filesystem::path& draft, const std::filesystem::path& name);

}  // namespace trireme::io
