// One placement and cut into chunks: programs for them, what an order must know of these, and the
// simulator's word on both together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "judge/judge.h"
#include "stage/stage_options.h"
#include "stage/stage_room.h"
#include "values/cut.h"

#include "trireme/schedule/search.h"

#include <optional>
#include <string>
#include <vector>

namespace trireme::partition {

/// Name of the policy that makes programs of chunks.
std::string chunk_policy(const Question& question);

class ChunkLayout {
 public:
  using Programs = std::vector<const Prepared*>;

  /// Both must outlive it.
  ChunkLayout(const StageRoom& room, StageOptions& options, schedule::Placement placement, Cut cut);

  /// Programs that keep everything.
  Programs keep_all();
  /// Whether values may be offloaded between forward and backward, where a rank has a link and a
  /// budget.
  enum class Offload { kNone, kMay };
  /// Whether that makes a difference.
  bool can_offload() const;
  /// The programs with which each rank takes the least time for a micro-batch of each of its chunks
  /// and has room for all that the order holds at once; empty if there are none. `less`, here and
  /// below: bytes that each rank is to leave free.
  std::optional<Programs> programs(const schedule::Order& order, StageOptions::How how,
                                   Offload offload, const std::vector<Bytes>& less);

  /// What an order of passes must know.
  schedule::Workload workload(const Programs& programs, const std::vector<Bytes>& less) const;
  /// By chunk, whether its backward is to be split.
  std::vector<bool> split(const Programs& programs) const;

  /// The plan of that name of a schedule with its predictions; budgets are not checked. Empty if
  /// ranks would wait in a circle.
  std::optional<Simulated> judge(const Programs& programs, const schedule::Order& order,
                                 const std::string& schedule) const;

  /// The rank that lacks most memory with that many micro-batches in flight and the programs that
  /// need least.
  plan::Infeasible lack(const std::vector<int>& in_flight) const;

  const schedule::Placement& placement() const { return placement_; }
  /// The rank's memory for programs and what they keep; kUnlimited without a budget.
  Bytes memory(int rank) const { return memory_[static_cast<std::size_t>(rank)]; }
  int chunks() const { return static_cast<int>(cut_.size()); }

 private:
  chain::LayerRange layers(int chunk) const;
  LayerRuns runs_of(int rank) const;
  Bytes memory_for_programs(int rank) const;
  /// The rank's link to its offload tier; nothing where it has none, or no budget.
  std::optional<solve::HostLink> link_of(int rank) const;
  Seconds weights_of(const Prepared& prepared, int chunk) const;
  /// Whether the chunk's program offloads nothing that a neighbouring chunk of its rank holds, too.
  bool leaves_what_is_shared(int chunk, const program::StageProgram& program) const;
  /// Adds the least programs of a rank's chunks in `memory` to `found`; false if there are none.
  bool add_programs(std::size_t rank, const std::vector<schedule::Pass>& passes,
                    StageOptions::How how, Offload offload, Bytes memory, Programs& found);

  const StageRoom& room_;
  StageOptions& options_;
  schedule::Placement placement_;
  Cut cut_;
  std::vector<Bytes> memory_;  ///< by rank
};

}  // namespace trireme::partition
