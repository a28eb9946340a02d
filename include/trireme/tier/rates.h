// How fast an outer tier is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/tier/outer_store.h"

#include <functional>

namespace trireme::tier {

/// Of copies from the device to the outer tier, and back.
struct TierRates {
  BytesPerSecond out{0}, in{0};
};

/// Copies a sample there and back, piece by piece, as training does: the median of a few rounds.
/// Takes some tenths of a second and at most 64 MiB of either part.
TierRates measure_rates(const OuterStoreOptions& options);

/// Of a tier that has host memory and disk the slower part's rates, 0 if it has neither. `measure`
/// is given a tier with at most 64 MiB of one of them.
TierRates slower_rates(const OuterStoreOptions& options,
                       const std::function<TierRates(const OuterStoreOptions&)>& measure);

}  // namespace trireme::tier
