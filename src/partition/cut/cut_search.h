// Where to cut a chain: exact for the period, then for fill and drain, then judged by a timeline.
//
// A cut is written as the last layer of every stage, the chain's last among them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "judge/timeline.h"
#include "least_cut.h"
#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include <optional>
#include <vector>

namespace trireme::partition {

class CutSearch {
 public:
  /// Both must outlive it. With `copies` the policy is asked with the ranks' links.
  CutSearch(const StageRoom& room, StagePolicy& policy, bool copies = false);

  /// Seconds of first..last on the rank of `stage`, kNever if it does not fit.
  double time(int stage, int first, int last);
  /// Step by timeline, kNever if a stage does not fit. Exact where all recomputation hides behind
  /// waits for gradients (`hidden`), or none does; plans lie between. `enough` as Timeline has it.
  double step(const Cut& cut, bool hidden, double enough = kNever);

  /// Step by timeline if nothing were run twice; no plan on this cut is faster.
  double ideal_step(const Cut& cut);

  /// The cut with the least period (the time of its slowest stage), exactly; nothing if no cut
  /// fits.
  std::optional<Cut> least_period();
  /// Among cuts whose period is at most `period` one with the least sum of stage times and
  /// transfers, which is what fill and drain take; exactly.
  std::optional<Cut> least_sum(double period);

  /// Distinct cuts worth simulating: at most `most` that are best by timeline if no recomputation
  /// hides behind waits, best first, then as many others that are best if all does.
  std::vector<Cut> candidates(int most);

 private:
  /// For a period: between which layers a stage may end if nothing were run twice. False if some
  /// layer alone takes longer.
  bool find_window(double period);
  double least_possible_period();
  /// Least over cuts within the window of the worst (or the sum) of their stages' times, each at
  /// most `period`.
  enum class Goal { kWorst, kSum };
  std::optional<Cut> best(Goal goal, double period);
  /// The best of them by timeline, best first; those that do not fit are left out.
  std::vector<Cut> ranked(std::vector<Cut> cuts, int most, bool hidden);
  std::vector<Cut> all_cuts() const;
  std::vector<Cut> cuts_for_periods();
  /// Moves the ends of one stage, or of neighbouring ones together, while that helps.
  Cut climbed(Cut cut, bool hidden);

  const StageRoom& room_;
  StagePolicy& policy_;
  bool copies_;
  Timeline timeline_;
  Ends window_;
};

}  // namespace trireme::partition
