// Cache of large memory blocks that are mapped directly from the system.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>

namespace trireme::tier {

/// Keeps freed blocks for later requests, because each fresh page costs a page fault and zeroing;
/// but live and kept blocks together never exceed the peak of live bytes by more than slack(). So a
/// process holds about what its program needed at its peak, in whatever block sizes, where malloc
/// would keep the gaps between them as well. Thread-safe.
class BlockCache {
 public:
  /// Blocks of at least this size get a mapping of their own.
  static constexpr std::size_t kLeast = std::size_t{256} << 10;
  /// Allowance above a peak of `live` bytes: an eighth of it, at least 32 MiB. With less, repeated
  /// steps still release blocks that they request again; in a small program one large block is most
  /// of what changes.
  static constexpr std::size_t slack(std::size_t live) {
    return std::max(live / 8, std::size_t{32} << 20);
  }

  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// At least `size` bytes, page-aligned, with undefined content; nullptr if the system has none
  /// left.
  void* take(std::size_t size);
  /// `size` as it was requested.
  void give_back(void* block, std::size_t size) noexcept;

  /// Bytes mapped: live and kept, whole pages.
  std::size_t held() const;

 private:
  using Kept = std::multimap<std::size_t, void*>;  // by size

  void* take_kept(Kept::iterator block);
  void release(Kept::iterator block);
  void release_all();
  /// Releases kept blocks over the limit, but resizes the last of them to `size` and returns it, if
  /// there is one: its pages need not be zeroed again.
  void* resized(std::size_t size);

  mutable std::mutex mutex_;
  Kept kept_;
  std::size_t live_bytes_ = 0, kept_bytes_ = 0, most_live_ = 0;
};

}  // namespace trireme::tier
