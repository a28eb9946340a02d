// The meters of a job's ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/meter.h"
#include "trireme/ranks/rank_context.h"

#include <memory>

namespace trireme::ranks {

/// Collective: opens what counts the energy of this rank's device. Null on a rank that shares the
/// counter with a lower one, such as that of the processors of its machine; and on every rank where
/// the device of any has none, so that the sum over ranks is never of a part.
std::unique_ptr<device::Meter> open_meter(const RankContext& context);

}  // namespace trireme::ranks
