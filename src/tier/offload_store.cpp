// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/offload_store.h"

#include "store_file.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trireme::tier {
namespace {

/// Fowler, Noll and Vo's hash, eight bytes at a time: detects corruption of the stored bytes.
std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  std::size_t at = 0;
  for (; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    sum = (sum ^ word) * 0x100000001b3ULL;
  }
  return sum;
}

}  // namespace

void OffloadStore::Unmap::operator()(std::byte* data) const {
  ::munmap(data, static_cast<std::size_t>(size));
}

OffloadStore::OffloadStore(const OffloadStoreOptions& options)
    : host_size_(options.host.count()),
      disk_size_(options.disk.count()),
      places_(options.host + options.disk),
      checks_(options.checksums) {
  if (host_size_ > 0) {
    void* const data = ::mmap(nullptr, static_cast<std::size_t>(host_size_), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      throw Error(concat("the offload tier needs ", to_text(Bytes(host_size_)),
                         " of memory: ", std::strerror(errno), "; memory.host_budget asks for it"));
    }
    host_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(data), Unmap{host_size_});
  }
  if (disk_size_ > 0) {
    std::error_code failure;
    const std::filesystem::path folder = options.disk_path.empty()
                                             ? std::filesystem::temp_directory_path(failure)
                                             : options.disk_path;
    if (failure)
      throw Error(
          concat("the offload tier has no folder: that of temporary files (TMPDIR) cannot be "
                 "used: ",
                 failure.message(), "; memory.disk_path names another one"));
    file_ = std::make_unique<StoreFile>(folder, disk_size_, options.file_rate);
  }
}

OffloadStore::~OffloadStore() = default;

OffloadStore::Allocation OffloadStore::reserve(Bytes size) {
  const auto pieces = places_.take(size);
  if (!pieces) {
    throw Error(concat("the offload tier is full: asked for ", to_text(size), " with ",
                       to_text(capacity() - used()), " free of ", to_text(capacity()),
                       "; memory.host_budget and memory.disk_budget say how much there is"));
  }
  Allocation allocation;
  for (const Places::Piece& piece : *pieces) {
    // Split at the border between memory and file.
    const std::int64_t in_host = std::clamp<std::int64_t>(host_size_ - piece.offset, 0, piece.size);
    if (in_host > 0) allocation.pieces.push_back({piece.offset, in_host});
    if (in_host < piece.size)
      allocation.pieces.push_back({piece.offset + in_host, piece.size - in_host});
  }
  return allocation;
}

void OffloadStore::release(const Allocation& allocation) {
  places_.give_back(allocation.pieces);
}

void OffloadStore::write(const Allocation& allocation, std::span<const std::byte> bytes) {
  for (const Places::Piece& piece : allocation.pieces) {
    const auto part = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(piece.size)));
    write_part(piece.offset, part);
    bytes = bytes.subspan(part.size());
  }
}

void OffloadStore::read(const Allocation& allocation, std::span<std::byte> bytes) {
  for (const Places::Piece& piece : allocation.pieces) {
    const auto part = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(piece.size)));
    read_part(piece.offset, part);
    bytes = bytes.subspan(part.size());
  }
}

void OffloadStore::write_part(std::int64_t offset, std::span<const std::byte> bytes) {
  if (checks_) {
    const std::uint64_t sum = checksum_of(bytes);
    const std::lock_guard lock(sums_mutex_);
    sums_[offset] = sum;
  }
  if (offset < host_size_) {
    std::memcpy(host_.get() + offset, bytes.data(), bytes.size());
  } else {
    file_->write(offset - host_size_, bytes);
  }
}

void OffloadStore::read_part(std::int64_t offset, std::span<std::byte> bytes) {
  if (offset < host_size_) {
    std::memcpy(bytes.data(), host_.get() + offset, bytes.size());
  } else {
    file_->read(offset - host_size_, bytes);
  }
  if (!checks_) return;
  const std::uint64_t sum = checksum_of(bytes);
  const std::lock_guard lock(sums_mutex_);
  if (sums_.at(offset) != sum) {
    throw Error(concat("the offload tier returned other bytes than were written (", bytes.size(),
                       " B at offset ", offset,
                       "): the disk or the memory is faulty, or the file was written to"));
  }
}

int OffloadStore::descriptor() const {
  return file_ ? file_->descriptor() : -1;
}

}  // namespace trireme::tier
