// The counting CPU allocator. A header of 64 bytes precedes every block: size, account, tag. The
// data pointer is its own context, so that LibTorch's raw_allocate and copy-on-write keep working.
// SPDX-License-Identifier: Apache-2.0
#include "block_cache.h"

#include "trireme/core/text.h"
#include "trireme/tier/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <malloc.h>

#include <cstdlib>
#include <mutex>

namespace trireme::tier {
namespace {

thread_local MemoryAccount* current_account = nullptr;  // NOLINT: what a scope sets for its thread
thread_local Tag current_tag = Tag::kOther;             // NOLINT

constexpr std::size_t kAlignment = 64;

struct Header {
  std::int64_t size;
  MemoryAccount* account;
  Tag tag;
};
static_assert(sizeof(Header) <= kAlignment);

BlockCache& large_blocks() {
  static auto* const blocks = new BlockCache;  // never freed: tensors may outlive it
  return *blocks;
}

/// Allocates a header and `size` bytes; nullptr if the system has none left.
void* block_for(std::size_t size) {
  size += kAlignment;
  if (size >= BlockCache::kLeast) return large_blocks().take(size);
  void* block = nullptr;
  return posix_memalign(&block, kAlignment, size) == 0 ? block : nullptr;
}

void free_block(void* data) {
  if (data == nullptr) return;
  void* const block = static_cast<char*>(data) - kAlignment;
  const Header header = *static_cast<Header*>(block);
  if (header.account != nullptr) header.account->give_back(header.size, header.tag);
  const auto size = static_cast<std::size_t>(header.size) + kAlignment;
  if (size >= BlockCache::kLeast) return large_blocks().give_back(block, size);
  std::free(block);  // NOLINT: posix_memalign's counterpart
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (size == 0) return {nullptr, nullptr, &free_block, cpu};
    MemoryAccount* const account = current_account;
    const auto bytes = static_cast<std::int64_t>(size);
    if (account != nullptr) account->take(bytes, current_tag);
    void* const block = block_for(size);
    if (block == nullptr) {
      if (account != nullptr) account->give_back(bytes, current_tag);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "this machine has no memory left for ",
                       to_text(Bytes(bytes)));
    }
    *static_cast<Header*>(block) = {bytes, account, current_tag};
    void* const data = static_cast<char*>(block) + kAlignment;
    return {data, data, &free_block, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* target, const void* source, std::size_t count) const override {
    default_copy_data(target, source, count);
  }
};

}  // namespace

void install_cpu_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    // A training step frees and allocates the same blocks again and again: those too small for a
    // mapping of their own stay in malloc's heap.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    static auto* allocator = new CountingAllocator;  // never freed: it outlives every tensor
    c10::SetCPUAllocator(allocator, /*priority=*/255);
  });
}

AccountScope::AccountScope(MemoryAccount& account) : enclosing_(current_account) {
  current_account = &account;
}
AccountScope::~AccountScope() {
  current_account = enclosing_;
}

TagScope::TagScope(Tag tag) : enclosing_(current_tag) {
  current_tag = tag;
}
TagScope::~TagScope() {
  current_tag = enclosing_;
}

}  // namespace trireme::tier
