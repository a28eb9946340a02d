// Orders by search: the passes of any placement, ordered for the times and the memory at hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/schedule/order.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace trireme::schedule {

/// Costs of one chunk for one micro-batch. A rank's device holds `kept` from the begin of a forward
/// to the end of its backward, then `pending` (<= kept) until the W has ended; a forward and a
/// backward need `forward_more` and `backward_more` beside what is held while they run.
struct ChunkCosts {
  Seconds forward;
  Seconds backward;  ///< of the input's gradient, with what is recomputed before it
  Seconds weights;   ///< of the gradients of weights; 0: the backward is not split
  Seconds ahead;     ///< part of `backward` that may run before the gradient of the output is there
  Bytes kept, pending;
  Bytes forward_more, backward_more;

  bool is_split() const { return weights > Seconds(0); }
};

/// What an order is made for.
struct Workload {
  Placement placement;
  int micro_batches = 1;
  std::vector<ChunkCosts> chunks;
  /// By chunk but the last: time from the end of a pass until its output is there for the next
  /// chunk, or that one's gradient for it; 0 where both are on one rank.
  std::vector<Seconds> messages;
  /// By rank: bytes for all of the above. Empty: no limits.
  std::vector<Bytes> room;
  /// Messages of one stream (from rank, to rank, outputs or gradients) that may be under way: a
  /// rank goes on after the pass that sends message n of a stream only once the pass that takes
  /// message n - capacity has begun.
  int capacity = 2;
};

/// When the passes of an order run if each begins as soon as it may.
struct Timed {
  Seconds step;                              ///< end of the last pass
  std::vector<std::vector<Seconds>> begins;  ///< by rank and place in its list
  std::vector<Bytes> peaks;                  ///< by rank; follows from its order alone
};

/// Nothing where ranks wait in a circle. The order must be sound and of the workload's placement.
std::optional<Timed> timed(const Workload& workload, const Order& order);
/// Whether no rank's peak is above its room.
bool fits(const Workload& workload, const Timed& timed);

/// A lower bound on the step of every order that fits; infinite where not even one micro-batch fits
/// on some rank.
Seconds bound(const Workload& workload);

struct SearchEffort {
  int rules = 9000;          ///< list schedules by changed rules; 0: by a fixed set of rules alone
  int moves_per_pass = 100;  ///< of the local search, from each start; 0: list schedules alone
  int starts = 2;            ///< best list schedules that it begins with
  std::uint64_t seed = 1;
};

struct SearchedOrder {
  Order order;
  Seconds step, bound;
};

/// The fastest order found: list schedules by several rules, by changes of the best of these, then
/// local search from the best schedules until the bound or the effort is reached. The same on every
/// machine. Nothing where not even one micro-batch fits on some rank. `also`: orders that are sound
/// for this placement to begin with, too, such as those of named schedules; those that do not fit
/// are left out.
std::optional<SearchedOrder> search(const Workload& workload, const SearchEffort& effort,
                                    const std::vector<Order>& also = {});

}  // namespace trireme::schedule
