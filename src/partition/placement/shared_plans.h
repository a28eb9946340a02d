// Plans where one rank may have several stages: programs, the order of passes, the simulator's
// word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "allocation.h"
#include "judge/judge.h"
#include "stage/stage_options.h"

#include <optional>
#include <vector>

namespace trireme::partition {

/// Micro-batches in flight, by stage.
using Counts = std::vector<int>;

class SharedPlans {
 public:
  /// Both must outlive it.
  SharedPlans(const StageRoom& room, StagePolicy& policy)
      : room_(room), options_(room, policy, kLevels) {}

  /// Numbers worth trying: what 1F1B* says for the heaviest rank's load, a few more for the waits
  /// of stages for one another's rank, and as many as there are stages from there to the end.
  std::vector<Counts> counts_for(const Allocation& allocation) const;

  /// The step if every pass takes its time and links are free when they are needed, with programs
  /// that are found quickly; kNever if a stage does not fit.
  double estimate(const Allocation& allocation, const Counts& counts);

  /// Within every budget by the simulator; nothing if that cannot be had.
  std::optional<plan::Plan> built(const Allocation& allocation, const Counts& counts);

  StageOptions& options() { return options_; }
  const StageRoom& room() const { return room_; }
  /// Memory of a rank for the programs of such stages; kUnlimited without a budget.
  Bytes memory(const Allocation& allocation, const std::vector<int>& stages) const;

 private:
  /// Memories at which a stage that shares its rank is asked for a program.
  static constexpr int kLevels = 6;
  using Programs = std::vector<const Prepared*>;
  using How = StageOptions::How;
  /// By stage; nothing if a rank has too little. `less` is what each rank is to leave free.
  std::optional<Programs> programs(const Allocation& allocation, const Counts& counts,
                                   const std::vector<Bytes>& less, How how);
  program::TimedTurns turns(const Allocation& allocation, const Counts& counts,
                            const Programs& programs) const;
  std::optional<Simulated> judge(const Allocation& allocation, const Counts& counts,
                                 const Programs& chosen) const;
  /// Bytes over the budget by rank, negative where some are left.
  std::vector<Bytes> over_budgets(const simulate::Simulation& simulation) const;
  /// A faster plan with what the ranks have left, as long as there is one.
  plan::Plan loosened(const Allocation& allocation, const Counts& counts, Simulated found,
                      std::vector<Bytes> less);
  /// Recomputation ahead of the gradient where that makes the step shorter.
  plan::Plan hidden(const Allocation& allocation, const Counts& counts, plan::Plan plan) const;

  const StageRoom& room_;
  StageOptions options_;
};

}  // namespace trireme::partition
