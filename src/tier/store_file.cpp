// SPDX-License-Identifier: Apache-2.0
#include "store_file.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace trireme::tier {
namespace {

/// Opens a nameless file, or unlinks it at once where the file system cannot do the former.
int open_nameless(const std::filesystem::path& folder) {
  const int nameless = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return nameless;
  std::string name = (folder / "trireme-offload-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

std::string reason(int error) {
  return std::strerror(error);  // NOLINT: read at once
}

}  // namespace

StoreFile::StoreFile(std::filesystem::path folder, std::int64_t size, BytesPerSecond rate)
    : folder_(std::move(folder)), rate_(rate), descriptor_(open_nameless(folder_)) {
  if (descriptor_ < 0) {
    throw Error(concat("the offload tier cannot make a file in ", folder_.string(), ": ",
                       reason(errno), "; memory.disk_path names another folder"));
  }
  // Not fallocate alone: a file system without it must still allocate the blocks now, not later.
  if (const int error = ::posix_fallocate(descriptor_, 0, size); error != 0) {
    ::close(descriptor_);
    throw Error(
        concat("the offload tier needs ", to_text(Bytes(size)), " on the disk of ",
               folder_.string(), ": ", reason(error),
               "; memory.disk_path names another folder, memory.disk_budget asks for less"));
  }
}

StoreFile::~StoreFile() {
  ::close(descriptor_);
}

void StoreFile::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                   offset + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error(concat("the offload tier's file in ", folder_.string(), " did not take ",
                         bytes.size() - done, " B at offset ",
                         offset + static_cast<std::int64_t>(done), ": ", reason(errno)));
    }
    done += static_cast<std::size_t>(count);
  }
  be_slow(bytes.size());
}

void StoreFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                  offset + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error(concat("the offload tier's file in ", folder_.string(), " did not give ",
                         bytes.size() - done, " B at offset ",
                         offset + static_cast<std::int64_t>(done), ": ",
                         count == 0 ? "it ends before; it was truncated" : reason(errno)));
    }
    done += static_cast<std::size_t>(count);
  }
  be_slow(bytes.size());
}

void StoreFile::be_slow(std::size_t bytes) const {
  if (rate_ <= BytesPerSecond(0)) return;
  const Seconds time = Bytes(static_cast<std::int64_t>(bytes)) / rate_;
  std::this_thread::sleep_for(std::chrono::duration<double>(time.count()));
}

}  // namespace trireme::tier
