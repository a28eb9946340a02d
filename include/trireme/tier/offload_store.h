// Storage of the offload tier: host memory first, then a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/tier/places.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace trireme::tier {

class StoreFile;

/// Options of an offload store.
struct OffloadStoreOptions {
  Bytes host;  ///< host memory
  Bytes disk;  ///< size of the file
  /// Folder for the file; empty: the system's temporary folder. The file is nameless: it disappears
  /// with the process, however that ends.
  std::filesystem::path disk_path;
  /// Every write stores a checksum, which the read verifies.
#ifdef NDEBUG
  bool checksums = false;
#else
  bool checksums = true;
#endif
  /// Limits the file to this rate, for tests and rehearsals. 0: no limit.
  BytesPerSecond file_rate{0};
};

/// A fixed number of bytes, reserved at construction and handed out as allocations. An allocation
/// may consist of several pieces at any offsets, so that nothing is lost to fragmentation,
/// alignment or the border between memory and file: a store of n bytes has room for any values of n
/// bytes in total. reserve() and release() belong to one thread; write() and read() of different
/// allocations may run on others.
class OffloadStore {
 public:
  /// Throws Error when the memory or the disk space is not available: nothing fails later for lack
  /// of it.
  explicit OffloadStore(const OffloadStoreOptions& options);
  ~OffloadStore();
  OffloadStore(const OffloadStore&) = delete;
  OffloadStore& operator=(const OffloadStore&) = delete;

  struct Allocation {
    /// Those in host memory first, then those in the file; none is in both.
    std::vector<Places::Piece> pieces;
  };

  /// Allocates `size` bytes. Throws Error with the bytes requested, free and in total.
  Allocation reserve(Bytes size);
  void release(const Allocation& allocation);

  /// Throws Error when file I/O fails or a checksum does not match: with the folder or offset and
  /// the reason. `bytes` has the allocation's size.
  void write(const Allocation& allocation, std::span<const std::byte> bytes);
  void read(const Allocation& allocation, std::span<std::byte> bytes);
  /// As write() and read(), for the part of a piece that begins at `offset`. With checksums, a read
  /// must have the offset and size of a write.
  void write_part(std::int64_t offset, std::span<const std::byte> bytes);
  void read_part(std::int64_t offset, std::span<std::byte> bytes);

  /// The host memory, for callers that copy its pieces by other means.
  std::span<std::byte> host() const { return {host_.get(), static_cast<std::size_t>(host_size_)}; }
  bool is_in_file(const Places::Piece& piece) const { return piece.offset >= host_size_; }

  Bytes capacity() const { return places_.capacity(); }
  Bytes used() const { return places_.used(); }
  Bytes peak() const { return places_.peak(); }
  /// The file's descriptor, -1 without one.
  int descriptor() const;

 private:
  struct Unmap {
    std::int64_t size;
    void operator()(std::byte* data) const;
  };

  std::int64_t host_size_ = 0, disk_size_ = 0;
  std::unique_ptr<std::byte, Unmap> host_{nullptr, Unmap{0}};
  std::unique_ptr<StoreFile> file_;
  Places places_;

  bool checks_ = false;
  std::mutex sums_mutex_;
  std::map<std::int64_t, std::uint64_t> sums_;  ///< by offset: checksum of the last write there
};

}  // namespace trireme::tier
