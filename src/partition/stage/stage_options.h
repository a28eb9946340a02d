// Programs of a run of layers, with what they need: from little memory to everything kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_policy.h"
#include "stage_room.h"
#include "sub_chains.h"

#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace trireme::partition {

/// Answers are kept, once for runs of layers that cost the same: a program is that of the earliest
/// of them, to be moved to where it is used (program::moved_to).
class StageOptions {
 public:
  /// What is to be run is asked for with care; what is only compared, quickly.
  enum class How { kQuick, kCareful };
  /// Both must outlive it; `levels` is the number of memories at which several() asks.
  StageOptions(const StageRoom& room, StagePolicy& policy, int levels)
      : room_(room), policy_(policy), levels_(levels), alike_(room.question().chain) {}

  /// The fastest in `memory`; nullptr if none fits.
  const Prepared* fastest(int first, int last, Bytes memory, int in_flight, How how);
  /// Its time at speed 1; kNever if none fits.
  double time(int first, int last, Bytes memory, int in_flight) {
    return policy_.time({first, last, memory, in_flight});
  }
  /// Some from the least memory to `most`, the last the fastest; none if nothing fits.
  const std::vector<Prepared>& several(int first, int last, Bytes most, int in_flight, How how);

  /// The choice for each stage of one rank with the least sum of times; nothing if none fits.
  /// A rank with several stages holds what each of them keeps, times its number in flight, and what
  /// the working one needs beyond that.
  struct Asked {
    int first = 1, last = 1;
    int in_flight = 1;
  };
  std::optional<std::vector<const Prepared*>> shared(const std::vector<Asked>& stages, Bytes memory,
                                                     How how);

 private:
  using Key = std::tuple<Run, Bytes, int, How>;

  const StageRoom& room_;
  StagePolicy& policy_;
  int levels_;
  SubChains alike_;
  std::map<Key, std::optional<Prepared>> fastest_;
  std::map<Key, std::vector<Prepared>> several_;
};

}  // namespace trireme::partition
