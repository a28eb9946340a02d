// Candidate programs of a run of layers with their needs, from little memory to everything kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_policy.h"
#include "stage_room.h"
#include "sub_chains.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme::partition {

/// Answers are memoized, once for all runs of layers with equal costs: a program is that of the
/// earliest such run, to be moved to its place (program::moved_to).
class StageOptions {
 public:
  /// kCareful for programs to be run, kQuick for those only compared.
  enum class How { kQuick, kCareful };
  /// Both must outlive it; `levels` is the number of memory sizes that several() tries.
  StageOptions(const StageRoom& room, StagePolicy& policy, int levels)
      : room_(room), policy_(policy), levels_(levels), alike_(room.question().chain) {}

  /// The fastest program in `memory`; nullptr if none fits.
  const Prepared* fastest(chain::LayerRange layers, Bytes memory, int in_flight, How how);
  /// Time of the fastest program at speed 1; kNever if none fits.
  Seconds time(chain::LayerRange layers, Bytes memory, int in_flight) {
    return policy_.time({layers, memory, in_flight});
  }
  /// The least memory with which a program fits.
  Bytes least_memory(chain::LayerRange layers, int in_flight) {
    return policy_.least_memory(layers, in_flight);
  }
  /// Programs from the least memory to `most`, the last the fastest; none if nothing fits. With a
  /// link (in seconds of speed 1) they offload values, too.
  const std::vector<Prepared>& several(chain::LayerRange layers, Bytes most, int in_flight, How how,
                                       const std::optional<solve::HostLink>& link = std::nullopt);

  /// The programs for the stages of one rank with the least sum of times; empty if none fits. A
  /// rank with several stages holds what each of them keeps, times its number in flight, plus what
  /// the working one needs beyond that.
  struct Asked {
    chain::LayerRange layers;
    int in_flight = 1;
  };
  std::optional<std::vector<const Prepared*>> shared(const std::vector<Asked>& stages, Bytes memory,
                                                     How how);

 private:
  using Key = std::tuple<chain::LayerRange, Bytes, int, How>;

  const StageRoom& room_;
  StagePolicy& policy_;
  int levels_;
  SubChains alike_;
  std::map<Key, std::optional<Prepared>> fastest_;
  std::map<std::pair<Key, LinkKey>, std::vector<Prepared>> several_;
};

}  // namespace trireme::partition
