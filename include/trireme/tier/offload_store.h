// Memory outside of the device tier: host memory first, then a file.
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

/// How an offload store is made.
struct OffloadStoreOptions {
  Bytes host;  ///< bytes of ordinary memory
  Bytes disk;  ///< bytes of a file
  /// A folder for the file; empty: the system's for temporary files. The file has no name there: it
  /// is gone when the process is, however that ends.
  std::filesystem::path disk_path;
  /// Every write leaves a checksum that the read compares with.
#ifdef NDEBUG
  bool checksums = false;
#else
  bool checksums = true;
#endif
  /// The file is made slower than it is: for tests and rehearsals. 0: as fast as it is.
  BytesPerSecond file_rate{0};
};

/// A fixed number of bytes, taken from the machine when it is made, handed out in places. A place
/// may be in several pieces, which begin anywhere, so that nothing is lost to gaps, alignment or
/// the border between memory and file: a store of n bytes has room for any values of together n
/// bytes. reserve() and release() belong to one thread; write() and read() of different places may
/// run on others.
class OffloadStore {
 public:
  /// Throws Error when the memory or the space on disk is not to be had: nothing fails later for
  /// want of it.
  explicit OffloadStore(const OffloadStoreOptions& options);
  ~OffloadStore();
  OffloadStore(const OffloadStore&) = delete;
  OffloadStore& operator=(const OffloadStore&) = delete;

  struct Place {
    /// Host memory first, then the file; none is in both.
    std::vector<Places::Piece> pieces;
  };

  /// Room for `size` bytes. Throws Error with what was asked, free and all there is.
  Place reserve(Bytes size);
  void release(const Place& place);

  /// Throws Error when the file does not take or give what it should: with its folder, the offset
  /// and the reason. `bytes` has the place's size.
  void write(const Place& place, std::span<const std::byte> bytes);
  void read(const Place& place, std::span<std::byte> bytes);
  /// The same of a part of a piece, which begins at `offset`. What is checked is what is read as it
  /// was written: from the same offset, as many bytes.
  void write_part(std::int64_t offset, std::span<const std::byte> bytes);
  void read_part(std::int64_t offset, std::span<std::byte> bytes);

  /// Where pieces are that are in memory: for those who copy by other means.
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
  std::map<std::int64_t, std::uint64_t> sums_;  ///< by offset, of what was written there last
};

}  // namespace trireme::tier
