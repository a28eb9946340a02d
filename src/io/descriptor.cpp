// SPDX-License-Identifier: Apache-2.0
#include "descriptor.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <new>
#include <string>
#include <system_error>

namespace trireme::io {

namespace {

[[noreturn]] void fail_kind(const std::filesystem::path& file, mode_t mode) {
  throw InputError(concat(
      file.string(), S_ISDIR(mode) ? ": is a folder, must be a file" : ": is not a regular file"));
}

/// Opens without waiting for a pipe's other end.
int open_at_once(const std::filesystem::path& file, struct stat& status) {
  const int number = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (number < 0) {
    const int code = errno;
    if (code == ENXIO) fail_kind(file, 0);  // a socket
    fail_read(file, code);
  }
  if (::fstat(number, &status) == 0) return number;
  const int code = errno;
  ::close(number);
  fail_read(file, code);
}

/// A descriptor of this process by its name, as shells pass those of `<(command)`.
bool is_inherited(const std::filesystem::path& file) {
  const std::string name = file.string();
  return name == "/dev/stdin" || name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/");
}

}  // namespace

int open_regular(const std::filesystem::path& file) {
  struct stat status {};
  const int number = open_at_once(file, status);
  if (S_ISREG(status.st_mode)) return number;
  ::close(number);
  fail_kind(file, status.st_mode);
}

int open_to_read(const std::filesystem::path& file) {
  if (!is_inherited(file)) return open_regular(file);
  struct stat status {};
  const int number = open_at_once(file, status);
  // The other end is open already and may be slow: reads shall block.
  const int flags = ::fcntl(number, F_GETFL);
  if (!S_ISDIR(status.st_mode) && ::fcntl(number, F_SETFL, flags & ~O_NONBLOCK) == 0) return number;
  ::close(number);
  fail_kind(file, status.st_mode);
}

void write_all(const Descriptor& out, std::string_view content, const std::filesystem::path& file) {
  while (!content.empty()) {
    const ssize_t count = ::write(out.number(), content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_write(file, errno);
    content.remove_prefix(static_cast<std::size_t>(count));
  }
}

void flush_folder(const std::filesystem::path& folder) {
  const std::filesystem::path named = folder.empty() ? std::filesystem::path(".") : folder;
  const Descriptor opened(::open(named.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot flush a folder (EINVAL); what was done in it has succeeded by now.
  if (opened.is_open() && ::fsync(opened.number()) != 0 && errno != EINVAL)
    fail_write(named, errno);
}

void fail_read(const std::filesystem::path& file, int code) {
  if (code == ENOMEM) throw std::bad_alloc();  // says nothing about the file
  throw InputError(
      concat(file.string(), ": cannot be read: ", std::generic_category().message(code)));
}

void fail_write(const std::filesystem::path& file, int code) {
  throw Error(
      concat(file.string(), ": cannot be written: ", std::generic_category().message(code)));
}

}  // namespace trireme::io
