// Owned file descriptors, whose errors name the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <utility>

namespace trireme::io {

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// False when the system refused what was written earlier.
  bool close() { return !is_open() || ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

/// Opens a file for a Descriptor without blocking. Pipes and the like that this process was given
/// (/dev/stdin, /dev/fd/3) are read; others are refused with InputError, as is a file that cannot
/// be opened.
int open_to_read(const std::filesystem::path& file);

/// Throws Error that names `file`.
void write_all(const Descriptor& out, std::string_view content, const std::filesystem::path& file);
/// Flushes the entries of a folder to disk.
void flush_folder(const std::filesystem::path& folder);

[[noreturn]] void fail_read(const std::filesystem::path& file, int code);
[[noreturn]] void fail_write(const std::filesystem::path& file, int code);

}  // namespace trireme::io
