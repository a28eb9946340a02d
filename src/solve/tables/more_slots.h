// Plans with more slots than the budget has, since sizes were rounded up.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/costs.h"

#include <numeric>

namespace trireme::solve {

// Programs looked at to find the most slots whose program still fits in bytes.
inline constexpr int kMoreSlotsTries = 8;

/// More slots than are available give a faster program, which may fit all the same: sizes were
/// rounded up. Bisects for the largest number, up to `most`, for which `fits(slots)` is true;
/// `fits` keeps what it finds. Each answer is in bytes, so `fits` need not be monotone.
template <class Fits>
void try_more_slots(Slots available, Slots most, Fits fits) {
  Slots fitting = available, beyond = most + 1;
  for (int k = 0; k < kMoreSlotsTries && beyond - fitting > 1; ++k) {
    const Slots slots = k == 0 ? most : std::midpoint(fitting, beyond);
    (fits(slots) ? fitting : beyond) = slots;
  }
}

}  // namespace trireme::solve
