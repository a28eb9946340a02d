// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/outer_store.h"

#include "store_file.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trireme::tier {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t rounded_up(std::int64_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

/// Fowler, Noll and Vo's hash, eight bytes at a time: notices what a broken file would do.
std::uint64_t checksum_of(std::uint64_t so_far, std::span<const std::byte> bytes) {
  std::uint64_t sum = so_far;
  std::size_t at = 0;
  for (; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    sum = (sum ^ word) * 0x100000001b3ULL;
  }
  return sum;
}
constexpr std::uint64_t kNoBytes = 0xcbf29ce484222325ULL;

}  // namespace

void OuterStore::Unmap::operator()(std::byte* data) const {
  ::munmap(data, static_cast<std::size_t>(size));
}

OuterStore::OuterStore(const OuterStoreOptions& options)
    : host_size_(options.host.count() / kAlignment * kAlignment),
      disk_size_(options.disk.count() / kAlignment * kAlignment),
      checksums_(options.checksums) {
  if (host_size_ > 0) {
    void* const data = ::mmap(nullptr, static_cast<std::size_t>(host_size_), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      throw Error(concat("the outer tier needs ", to_text(Bytes(host_size_)),
                         " of memory: ", std::strerror(errno), "; memory.host_budget asks for it"));
    }
    host_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(data), Unmap{host_size_});
  }
  if (disk_size_ > 0) {
    file_ = std::make_unique<StoreFile>(
        options.disk_path.empty() ? std::filesystem::temp_directory_path() : options.disk_path,
        disk_size_, options.file_rate);
  }
  if (capacity() > Bytes(0)) free_[0] = capacity().count();
}

OuterStore::~OuterStore() = default;

OuterStore::Place OuterStore::reserve(Bytes size) {
  const std::int64_t needed = rounded_up(size.count());
  if (Bytes(needed) > capacity() - used_) {
    throw Error(concat("the outer tier is full: asked for ", to_text(size), " with ",
                       to_text(capacity() - used_), " free of ", to_text(capacity()),
                       "; memory.host_budget and memory.disk_budget say how much there is"));
  }
  Place place;
  for (std::int64_t left = needed; left > 0;) {
    const auto first = free_.begin();
    const Piece piece{first->first, std::min(left, first->second)};
    const std::int64_t rest = first->second - piece.size;
    free_.erase(first);
    if (rest > 0) free_[piece.offset + piece.size] = rest;
    // No piece is partly memory and partly file.
    const std::int64_t in_host = std::clamp<std::int64_t>(host_size_ - piece.offset, 0, piece.size);
    if (in_host > 0) place.pieces.push_back({piece.offset, in_host});
    if (in_host < piece.size)
      place.pieces.push_back({piece.offset + in_host, piece.size - in_host});
    left -= piece.size;
  }
  used_ += Bytes(needed);
  peak_ = std::max(peak_, used_);
  return place;
}

void OuterStore::release(const Place& place) {
  for (const Piece& piece : place.pieces) {
    used_ -= Bytes(piece.size);
    auto [at, added] = free_.emplace(piece.offset, piece.size);
    ensure(added, "a place is given back once");
    if (const auto next = std::next(at);
        next != free_.end() && next->first == at->first + at->second) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) continue;
    const auto before = std::prev(at);
    if (before->first + before->second != at->first) continue;
    before->second += at->second;
    free_.erase(at);
  }
}

void OuterStore::write(Place& place, std::span<const std::byte> bytes) {
  if (checksums_) place.checksum = checksum_of(kNoBytes, bytes);
  for (const Piece& piece : place.pieces) {
    const auto part = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(piece.size)));
    if (piece.offset < host_size_) {
      std::memcpy(host_.get() + piece.offset, part.data(), part.size());
    } else {
      file_->write(piece.offset - host_size_, part);
    }
    bytes = bytes.subspan(part.size());
  }
}

void OuterStore::read(const Place& place, std::span<std::byte> bytes) {
  std::span<std::byte> rest = bytes;
  for (const Piece& piece : place.pieces) {
    const auto part = rest.first(std::min(rest.size(), static_cast<std::size_t>(piece.size)));
    if (piece.offset < host_size_) {
      std::memcpy(part.data(), host_.get() + piece.offset, part.size());
    } else {
      file_->read(piece.offset - host_size_, part);
    }
    rest = rest.subspan(part.size());
  }
  if (checksums_ && checksum_of(kNoBytes, bytes) != place.checksum) {
    throw Error(concat("the outer tier gave back other bytes than it was given (", bytes.size(),
                       " B at offset ", place.pieces.front().offset,
                       "): the disk or the memory is broken, or somebody wrote to the file"));
  }
}

int OuterStore::descriptor() const {
  return file_ ? file_->descriptor() : -1;
}

Bytes OuterStore::room_for(Bytes size) {
  return Bytes(rounded_up(size.count()));
}

}  // namespace trireme::tier
