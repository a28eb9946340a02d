// How fast an offload tier is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/tier/offload_store.h"

#include <functional>

namespace trireme::tier {

/// Of copies from the device to the offload tier, and back.
struct TierRates {
  BytesPerSecond out{0}, in{0};
};

/// Copies a sample there and back, piece by piece, as training does: the median of a few rounds.
/// Takes some tenths of a second and at most 64 MiB of either part.
TierRates measure_rates(const OffloadStoreOptions& options);

/// Whether the system keeps a file of that size in memory while it is written and read: up to a
/// tenth of the memory, above which Linux makes writers wait for the disk.
bool is_cached(Bytes disk);

/// Of a tier that has host memory and disk the slower part's rates, 0 if it has neither. `measure`
/// is given a tier with 4 KiB to 64 MiB of one of them. Of a disk that is not cached, no more than
/// those of its file past the system's memory, which takes seconds where the disk is slow.
TierRates slower_rates(const OffloadStoreOptions& options,
                       const std::function<TierRates(const OffloadStoreOptions&)>& measure);

}  // namespace trireme::tier
