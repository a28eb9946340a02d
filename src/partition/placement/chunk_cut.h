// Cuts of a chain into chunks of which every rank has several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_room.h"
#include "values/cut.h"

#include "trireme/schedule/order.h"

#include <functional>

namespace trireme::partition {

/// A cut with about the least time of the busiest rank, without recomputation: chunks of equal
/// time, then ends of neighbouring chunks moved by a layer while that lowers the largest sum of a
/// rank's chunks (or, between equals, the sum of their squares). There must be a layer for every
/// chunk.
Cut balanced_chunks(const StageRoom& room, const schedule::Placement& placement);

/// The same beginning with `cut`, where bytes go before time: ends move while that lowers
/// `lack(cut)`, the bytes that the rank which lacks most lacks. `cut` itself where none does.
Cut roomy_chunks(const StageRoom& room, const schedule::Placement& placement, Cut cut,
                 const std::function<Bytes(const Cut&)>& lack);

}  // namespace trireme::partition
