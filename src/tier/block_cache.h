// Large blocks of memory, straight from the system.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>

namespace trireme::tier {

/// Keeps freed blocks for whoever asks next, because fresh pages cost a fault and a clearing each;
/// but live and kept blocks together never take more than slack() above the most that was live so
/// far. So a process holds about what its program needed at its peak, in whatever sizes that comes,
/// where malloc would keep the gaps between them as well. Thread-safe.
class BlockCache {
 public:
  /// From this size on a block is worth a mapping of its own.
  static constexpr std::size_t kLeast = std::size_t{256} << 10;
  /// Beyond so much that was live: an eighth of it, 32 MiB at least. With less, steps that repeat
  /// still release what they ask for again; one large block more or less is most of what a small
  /// program moves.
  static constexpr std::size_t slack(std::size_t live) {
    return std::max(live / 8, std::size_t{32} << 20);
  }

  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// At least `size` bytes at the begin of a page, their content undefined; nullptr if the system
  /// has none left.
  void* take(std::size_t size);
  /// `size` as it was asked for.
  void give_back(void* block, std::size_t size) noexcept;

  /// Bytes mapped: live and kept, whole pages.
  std::size_t held() const;

 private:
  using Kept = std::multimap<std::size_t, void*>;  // by size

  void* take_kept(Kept::iterator block);
  void release(Kept::iterator block);
  void release_all();
  /// Releases what is over the limit, but resizes the last block of it to `size` if there is one:
  /// its pages need not be cleared again.
  void* resized(std::size_t size);

  mutable std::mutex mutex_;
  Kept kept_;
  std::size_t live_bytes_ = 0, kept_bytes_ = 0, most_live_ = 0;
};

}  // namespace trireme::tier
