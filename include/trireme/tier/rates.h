// Copy rates of an offload tier, as measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/tier/offload_store.h"

#include <functional>

namespace trireme::tier {

/// Rates of copies from the device to the offload tier (out) and back (in).
struct TierRates {
  BytesPerSecond out{0}, in{0};
};

/// Copies a sample out and back, piece by piece, as training does: medians of a few rounds. Takes
/// some tenths of a second and at most 64 MiB of host memory and of disk each.
TierRates measure_rates(const OffloadStoreOptions& options);

/// Whether the page cache keeps a file of that size while it is written and read: up to a tenth of
/// the memory, above which Linux makes writers wait for the disk.
bool is_cached(Bytes disk);

/// Rates of the slower of a tier's parts, host memory and disk; 0 if it has neither. `measure` gets
/// a tier with 4 KiB to 64 MiB of one of them. The rates of a disk that is not cached are at most
/// those of its file past the page cache, whose measurement takes seconds where the disk is slow.
TierRates slower_rates(const OffloadStoreOptions& options,
                       const std::function<TierRates(const OffloadStoreOptions&)>& measure);

}  // namespace trireme::tier
