// The search for cuts: exact for the period, then exact for fill and drain, then ranked by a
// timeline.
//
// A cut is the last layer of every stage, including the chain's last.
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
  /// Both must outlive it. With `copies` the policy may use the ranks' copy links.
  CutSearch(const StageRoom& room, StagePolicy& policy, bool copies = false);

  /// Time of these layers on the rank of `stage`, kNever if they do not fit.
  Seconds time(int stage, chain::LayerRange layers);
  /// Step by timeline, kNever if a stage does not fit. Exact where waits for gradients hide all
  /// recomputation (`hidden`) or none; plans lie between. `enough`: see Timeline.
  Seconds step(const Cut& cut, bool hidden, Seconds enough = kNever);

  /// Step by timeline without recomputation: a lower bound for plans on this cut.
  Seconds ideal_step(const Cut& cut);

  /// The cut with the least period (the time of its slowest stage), exact; empty if no cut fits.
  std::optional<Cut> least_period();
  /// A cut with the least sum of stage times and transfers (the time of fill and drain) among those
  /// whose period is at most `period`; exact.
  std::optional<Cut> least_sum(Seconds period);

  /// Distinct cuts worth simulating: at most `most` that are best by timeline if waits hide no
  /// recomputation, best first, then as many others that are best if all does.
  std::vector<Cut> candidates(int most);

 private:
  /// Computes the range of each stage's last layer for a period, without recomputation. False if
  /// some layer alone takes longer.
  bool find_window(Seconds period);
  Seconds least_possible_period();
  /// The cut within the window that minimizes the maximum (or the sum) of stage times, each at most
  /// `period`.
  enum class Goal { kWorst, kSum };
  std::optional<Cut> best(Goal goal, Seconds period);
  /// The best cuts by timeline, best first, without those that do not fit.
  std::vector<Cut> ranked(std::vector<Cut> cuts, int most, bool hidden);
  std::vector<Cut> all_cuts() const;
  std::vector<Cut> cuts_for_periods();
  /// Local search: moves one end, or neighbouring ends together, while that helps.
  Cut climbed(Cut cut, bool hidden);

  const StageRoom& room_;
  StagePolicy& policy_;
  bool copies_;
  Timeline timeline_;
  Ends window_;
};

}  // namespace trireme::partition
