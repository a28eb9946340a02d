// SPDX-License-Identifier: Apache-2.0
#include "descriptor.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>

namespace trireme::io {

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
  throw InputError(
      concat(file.string(), ": cannot be read: ", std::generic_category().message(code)));
}

void fail_write(const std::filesystem::path& file, int code) {
  throw Error(
      concat(file.string(), ": cannot be written: ", std::generic_category().message(code)));
}

}  // namespace trireme::io
