// SPDX-License-Identifier: Apache-2.0
#include "block_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace trireme::tier {
namespace {

std::size_t whole_pages(std::size_t size) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

void* or_null(void* mapped) {
  return mapped == MAP_FAILED ? nullptr : mapped;
}

void* mapped(std::size_t size) {
  return or_null(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

}  // namespace

BlockCache::~BlockCache() {
  release_all();
}

void* BlockCache::take(std::size_t size) {
  size = whole_pages(size);
  const std::lock_guard lock(mutex_);
  const std::size_t most_before = most_live_;
  live_bytes_ += size;
  most_live_ = std::max(most_live_, live_bytes_);
  if (const auto same = kept_.find(size); same != kept_.end()) return take_kept(same);
  void* block = resized(size);
  if (block == nullptr) block = mapped(size);
  if (block == nullptr) {
    release_all();
    block = mapped(size);
  }
  if (block == nullptr) {
    live_bytes_ -= size;
    most_live_ = most_before;
  }
  return block;
}

void BlockCache::give_back(void* block, std::size_t size) noexcept {
  size = whole_pages(size);
  const std::lock_guard lock(mutex_);
  live_bytes_ -= size;
  kept_bytes_ += size;
  kept_.emplace(size, block);
}

std::size_t BlockCache::held() const {
  const std::lock_guard lock(mutex_);
  return live_bytes_ + kept_bytes_;
}

void* BlockCache::take_kept(Kept::iterator block) {
  void* const taken = block->second;
  kept_bytes_ -= block->first;
  kept_.erase(block);
  return taken;
}

void BlockCache::release(Kept::iterator block) {
  const std::size_t size = block->first;
  ::munmap(take_kept(block), size);
}

void BlockCache::release_all() {
  while (!kept_.empty()) release(kept_.begin());
}

void* BlockCache::resized(std::size_t size) {
  const std::size_t limit = most_live_ + slack(most_live_);
  while (live_bytes_ + kept_bytes_ > limit) {
    // The smallest block that suffices alone; if none does, the largest, then another one.
    const auto enough = kept_.lower_bound(live_bytes_ + kept_bytes_ - limit);
    if (enough == kept_.end()) {
      release(std::prev(enough));
      continue;
    }
    const std::size_t before = enough->first;
    void* const block = take_kept(enough);
    if (void* const other = or_null(::mremap(block, before, size, MREMAP_MAYMOVE))) return other;
    ::munmap(block, before);
  }
  return nullptr;
}

}  // namespace trireme::tier
