// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/offload_store.h"

#include "trireme/core/error.h"
#include "trireme/tier/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <vector>

namespace trireme::tier {
namespace {

std::vector<std::byte> random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Where allocations may be.
class AnyStore : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  static OffloadStoreOptions options() {
    return {.host = Bytes(GetParam().first), .disk = Bytes(GetParam().second), .checksums = true};
  }
};

TEST_P(AnyStore, GivesBackWhatItWasGiven) {
  // Oracle: copies of the bytes. Allocations are made and released, so free room is in pieces.
  OffloadStore store(options());
  std::mt19937 random(7);
  std::vector<std::pair<OffloadStore::Allocation, std::vector<std::byte>>> held;
  for (std::uint32_t round = 0; round < 400; ++round) {
    const std::size_t size = random() % 3000;
    if (store.used() + Bytes(static_cast<std::int64_t>(size)) <= store.capacity()) {
      OffloadStore::Allocation place = store.reserve(Bytes(static_cast<std::int64_t>(size)));
      std::vector<std::byte> bytes = random_bytes(size, round);
      store.write(place, bytes);
      held.emplace_back(place, std::move(bytes));
    }
    if (held.size() < 5 || random() % 2 == 0) continue;
    const std::size_t which = random() % held.size();
    std::vector<std::byte> back(held[which].second.size());
    store.read(held[which].first, back);
    ASSERT_EQ(back, held[which].second);
    store.release(held[which].first);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
  }
  for (const auto& [place, bytes] : held) store.release(place);
  EXPECT_EQ(store.used(), Bytes(0));
}

INSTANTIATE_TEST_SUITE_P(Tiers, AnyStore,
                         testing::Values(std::pair(16384, 0), std::pair(0, 16384),
                                         std::pair(4096, 12288), std::pair(4001, 12347),
                                         std::pair(1, 16001), std::pair(16001, 1)));

TEST(OffloadStore, HasRoomForValuesOfAsManyBytesWhereverTheBorderOfMemoryAndFileIs) {
  // Odd sizes, small ones among them, and a border before every byte of the first ones.
  std::vector<std::int64_t> sizes{1, 63, 65, 4, 1000, 12, 2048, 7, 127};
  std::int64_t all = 0;
  for (const std::int64_t size : sizes) all += size;
  for (std::int64_t host = 0; host <= all; host += host < 260 ? 1 : 97) {
    SCOPED_TRACE(host);
    OffloadStore store({.host = Bytes(host), .disk = Bytes(all - host), .checksums = true});
    std::vector<std::pair<OffloadStore::Allocation, std::vector<std::byte>>> held;
    for (const std::int64_t size : sizes) {
      auto bytes = random_bytes(static_cast<std::size_t>(size), 3);
      held.emplace_back(store.reserve(Bytes(size)), std::move(bytes));
      store.write(held.back().first, held.back().second);
    }
    EXPECT_EQ(store.used(), store.capacity());
    EXPECT_THROW(store.reserve(Bytes(1)), Error);
    for (const auto& [place, bytes] : held) {
      std::vector<std::byte> back(bytes.size());
      store.read(place, back);
      EXPECT_EQ(back, bytes);
    }
  }
}

TEST(OffloadStore, UsesEveryByteHoweverItIsBroken) {
  OffloadStore store({.host = Bytes(64 * 100), .disk = Bytes(0)});
  std::vector<OffloadStore::Allocation> places;
  for (int i = 0; i < 100; ++i) places.push_back(store.reserve(Bytes(64)));
  for (std::size_t i = 0; i < 100; i += 2) store.release(places[i]);

  const OffloadStore::Allocation pieces = store.reserve(Bytes(64 * 50));

  EXPECT_EQ(pieces.pieces.size(), 50U);
  EXPECT_EQ(store.used(), store.capacity());
  EXPECT_EQ(store.peak(), store.capacity());
}

TEST(OffloadStore, SaysWhatIsLeftWhenItIsFull) {
  OffloadStore store({.host = Bytes(1024), .disk = Bytes(0)});
  store.reserve(Bytes(1000));
  try {
    store.reserve(Bytes(25));
    FAIL() << "there is no room";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("full: asked for 25 B with 24 B free of 1.00 KiB"));
  }
}

TEST(OffloadStore, HasAFileWithoutAName) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("offload_store_test" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  {
    OffloadStore store({.host = Bytes(0), .disk = Bytes(1 << 20), .disk_path = folder});
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "a crash would leave it behind";
    EXPECT_GE(store.descriptor(), 0);
  }
  std::filesystem::remove(folder);
}

TEST(OffloadStore, NamesTheFolderThatItCannotUse) {
  try {
    OffloadStore store({.host = Bytes(0), .disk = Bytes(4096), .disk_path = "/proc/nowhere"});
    FAIL() << "there is no such folder";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("/proc/nowhere"),
                                             testing::HasSubstr("memory.disk_path")));
  }
}

TEST(OffloadStore, TakesTheDiskItNeedsAtOnceOrNotAtAll) {
  EXPECT_THROW(OffloadStore({.host = Bytes(0), .disk = Bytes(std::int64_t{1} << 60)}), Error);
}

TEST(OffloadStore, NoticesThatItsFileWasCut) {
  OffloadStore store({.host = Bytes(0), .disk = Bytes(8192)});
  OffloadStore::Allocation place = store.reserve(Bytes(8192));
  std::vector<std::byte> bytes = random_bytes(8192, 1);
  store.write(place, bytes);
  ASSERT_EQ(ftruncate(store.descriptor(), 5000), 0);
  try {
    store.read(place, bytes);
    FAIL() << "3192 bytes are gone";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("it was truncated"));
  }
}

TEST(OffloadStore, NoticesOtherBytesThanItWasGiven) {
  OffloadStore store({.host = Bytes(0), .disk = Bytes(4096), .checksums = true});
  OffloadStore::Allocation place = store.reserve(Bytes(4096));
  std::vector<std::byte> bytes = random_bytes(4096, 1);
  store.write(place, bytes);
  const char other = static_cast<char>(~static_cast<unsigned char>(bytes[1000]));
  ASSERT_EQ(pwrite(store.descriptor(), &other, 1, 1000), 1);

  EXPECT_THROW(store.read(place, bytes), Error);
}

TEST(OffloadStore, IsAsSlowAsItIsTold) {
  OffloadStore store(
      {.host = Bytes(0), .disk = Bytes(1 << 20), .file_rate = BytesPerSecond(20 << 20)});
  OffloadStore::Allocation place = store.reserve(Bytes(1 << 20));
  const std::vector<std::byte> bytes(1 << 20);
  const auto begin = std::chrono::steady_clock::now();
  store.write(place, bytes);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;

  EXPECT_GE(time.count(), 0.05);  // a lower bound of a sleep, whatever the machine
}

TEST(Rates, AreKnownForWhateverThereIs) {
  const TierRates host = measure_rates({.host = Bytes(8 << 20), .disk = Bytes(0)});
  const TierRates disk = measure_rates({.host = Bytes(0), .disk = Bytes(8 << 20)});
  const TierRates none = measure_rates({.host = Bytes(0), .disk = Bytes(0)});

  EXPECT_GT(host.out, BytesPerSecond(0));
  EXPECT_GT(host.in, BytesPerSecond(0));
  EXPECT_GT(disk.out, BytesPerSecond(0));
  EXPECT_GT(disk.in, BytesPerSecond(0));
  EXPECT_EQ(none.out, BytesPerSecond(0));
}

// A plan may use even the smallest tier.
TEST(Rates, AreThereOfAByte) {
  for (const OffloadStoreOptions& tiny :
       {OffloadStoreOptions{.host = Bytes(1), .disk = Bytes(0)},
        OffloadStoreOptions{.host = Bytes(0), .disk = Bytes(1)},
        OffloadStoreOptions{.host = Bytes(4095), .disk = Bytes(4095)}}) {
    EXPECT_GT(measure_rates(tiny).out, BytesPerSecond(0));
    EXPECT_GT(measure_rates(tiny).in, BytesPerSecond(0));
  }
}

// Rates through the page cache say nothing about a file that does not fit there.
TEST(Rates, OfALargeFileAreNoMoreThanThoseOfItsDisk) {
  constexpr BytesPerSecond kAny{1e18};
  const auto of_disk = [&](Bytes disk) {
    return slower_rates({.host = Bytes(0), .disk = disk}, [&](const OffloadStoreOptions& part) {
      EXPECT_LE(part.disk, Bytes(64 << 20));
      return TierRates{.out = kAny, .in = kAny};
    });
  };
  EXPECT_TRUE(is_cached(Bytes(1 << 20)));
  EXPECT_EQ(of_disk(Bytes(1 << 20)).out, kAny);
  const Bytes large(std::int64_t{1} << 50);
  EXPECT_FALSE(is_cached(large));
  const TierRates rates = of_disk(large);
  EXPECT_GT(rates.out, BytesPerSecond(0));
  EXPECT_LT(rates.out, kAny);
  EXPECT_LT(rates.in, kAny);
}

}  // namespace
}  // namespace trireme::tier
