// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/rates.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

namespace trireme::tier {
namespace {

constexpr std::int64_t kSample = std::int64_t{64} << 20;
constexpr std::int64_t kLeastSample = 4096;
constexpr std::int64_t kPiece = std::int64_t{4} << 20;
constexpr int kRounds = 3;

Seconds time_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return to_seconds(std::chrono::steady_clock::now() - begin);
}

/// Whether written bytes are read from the page cache or from the disk.
enum class Through { kCaches, kDisk };

/// Flushes what was written to the disk and drops it from the page cache.
void leave_caches(const OffloadStore& store) {
  if (::fdatasync(store.descriptor()) != 0)
    throw Error(concat("the file of the offload tier: ", std::strerror(errno)));
  ::posix_fadvise(store.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
}

TierRates rates_of(const OffloadStoreOptions& options, Through through) {
  OffloadStore store(options);
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(kPiece, store.capacity().count())),
                               std::byte{1});
  const Bytes piece(static_cast<std::int64_t>(bytes.size()));
  const auto pieces = static_cast<std::size_t>(store.capacity() / piece);
  std::vector<OffloadStore::Allocation> allocations;
  for (std::size_t i = 0; i < pieces; ++i) allocations.push_back(store.reserve(piece));
  std::vector<double> out, in;
  for (int round = 0; round < kRounds; ++round) {
    const Seconds written = time_of([&] {
      for (const OffloadStore::Allocation& one : allocations) store.write(one, bytes);
      if (through == Through::kDisk) leave_caches(store);
    });
    const Seconds read = time_of([&] {
      for (const OffloadStore::Allocation& one : allocations) store.read(one, bytes);
    });
    const double all = static_cast<double>(piece.count()) * static_cast<double>(pieces);
    out.push_back(all / written.count());
    in.push_back(all / read.count());
  }
  std::sort(out.begin(), out.end());
  std::sort(in.begin(), in.end());
  return {BytesPerSecond(out[kRounds / 2]), BytesPerSecond(in[kRounds / 2])};
}

}  // namespace

TierRates measure_rates(const OffloadStoreOptions& options) {
  return slower_rates(
      options, [](const OffloadStoreOptions& part) { return rates_of(part, Through::kCaches); });
}

bool is_cached(Bytes disk) {
  return disk <= Bytes(std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE)) / 10;
}

TierRates slower_rates(const OffloadStoreOptions& options,
                       const std::function<TierRates(const OffloadStoreOptions&)>& measure) {
  TierRates slower;
  for (const bool disk : {false, true}) {
    const Bytes size = disk ? options.disk : options.host;
    if (size == Bytes(0)) continue;
    const Bytes sample = std::clamp(size, Bytes(kLeastSample), Bytes(kSample));
    OffloadStoreOptions part = options;
    part.host = disk ? Bytes(0) : sample;
    part.disk = disk ? sample : Bytes(0);
    TierRates rates = measure(part);
    if (disk && !is_cached(options.disk)) {
      const TierRates bare = rates_of(part, Through::kDisk);
      rates = {.out = std::min(rates.out, bare.out), .in = std::min(rates.in, bare.in)};
    }
    if (slower.out.count() == 0 || rates.out < slower.out) slower.out = rates.out;
    if (slower.in.count() == 0 || rates.in < slower.in) slower.in = rates.in;
  }
  return slower;
}

}  // namespace trireme::tier
