// SPDX-License-Identifier: Apache-2.0
#include "block_cache.h"

#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

namespace trireme::tier {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(BlockCache, GivesAFreedBlockToWhoeverAsksForItsSize) {
  BlockCache blocks;
  void* const first = blocks.take(3 * kMiB);
  void* const other = blocks.take(kMiB);
  blocks.give_back(first, 3 * kMiB);
  EXPECT_EQ(blocks.held(), 4 * kMiB);

  EXPECT_EQ(blocks.take(3 * kMiB), first);
  EXPECT_EQ(blocks.held(), 4 * kMiB);
  blocks.give_back(first, 3 * kMiB);
  blocks.give_back(other, kMiB);
}

TEST(BlockCache, NeverHoldsMuchMoreThanTheMostThatWasLive) {
  BlockCache blocks;
  std::mt19937 random(3);
  struct Live {
    unsigned char* block;
    std::size_t size;
    unsigned char mark;
  };
  std::vector<Live> live;
  std::size_t bytes = 0, most = 0;
  for (int i = 0; i < 6000; ++i) {
    if (live.empty() || (random() % 2 == 0 && bytes < 64 * kMiB)) {
      const std::size_t size = (1 + random() % 500) * 4096;
      auto* const block = static_cast<unsigned char*>(blocks.take(size));
      ASSERT_NE(block, nullptr);
      const auto mark = static_cast<unsigned char>(random());
      std::memset(block, mark, size);
      live.push_back({block, size, mark});
      most = std::max(most, bytes += size);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const Live gone = live.back();
      live.pop_back();
      ASSERT_TRUE(std::all_of(gone.block, gone.block + gone.size,
                              [&](unsigned char byte) { return byte == gone.mark; }));
      blocks.give_back(gone.block, gone.size);
      bytes -= gone.size;
    }
    ASSERT_LE(blocks.held(), most + BlockCache::slack(most));
    ASSERT_GE(blocks.held(), bytes);
  }
  for (const Live& one : live) blocks.give_back(one.block, one.size);
}

TEST(BlockCache, RefusesWhatTheSystemDoesNotHaveAndStaysUsable) {
  BlockCache blocks;
  EXPECT_EQ(blocks.take(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(blocks.held(), 0U);
  constexpr std::size_t kMany = 512 * kMiB;
  void* const block = blocks.take(kMany);
  EXPECT_NE(block, nullptr);
  blocks.give_back(block, kMany);
  void* const smaller = blocks.take(kMany / 2);
  EXPECT_LE(blocks.held(), kMany + kMany / 8);  // refused requests do not count
  blocks.give_back(smaller, kMany / 2);
}

TEST(BlockCache, ServesSeveralThreads) {
  BlockCache blocks;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&blocks, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 2000; ++i) {
        const std::size_t size = (1 + random() % 8) * kMiB / 4;
        auto* const block = static_cast<unsigned char*>(blocks.take(size));
        block[0] = block[size - 1] = static_cast<unsigned char>(seed);
        ASSERT_EQ(block[0] + block[size - 1], 2 * seed);
        blocks.give_back(block, size);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(blocks.held(), 8 * kMiB + BlockCache::slack(8 * kMiB));  // four of at most 2 MiB
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// malloc held 1.4 times the peak here: freed blocks leave gaps that no later block fits.
TEST(CpuAllocator, LeavesNoGapsBetweenTensorsOfManySizes) {
  install_cpu_allocator();
  MemoryAccount& account = MemoryAccount::open("rank 0");
  const AccountScope scope(account);
  const std::int64_t before = resident_bytes();
  std::mt19937 random(8);
  std::int64_t most_resident = 0;
  std::vector<at::Tensor> live;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t size = (300 + static_cast<std::int64_t>(random() % 4000)) << 10;
    while (account.live().count() + size > std::int64_t{256} << 20) {
      std::swap(live[random() % live.size()], live.back());
      live.pop_back();
    }
    live.push_back(at::empty({size}, at::kByte));
    std::memset(live.back().data_ptr(), 1, static_cast<std::size_t>(size));
    most_resident = std::max(most_resident, resident_bytes() - before);
  }
  const std::int64_t peak = account.peak().count();
  const auto slack = static_cast<std::int64_t>(BlockCache::slack(static_cast<std::size_t>(peak)));
  EXPECT_LE(most_resident, peak + slack + (std::int64_t{8} << 20));
}

}  // namespace
}  // namespace trireme::tier
