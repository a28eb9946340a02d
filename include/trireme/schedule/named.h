// Named schedules: the orders of passes that papers and other programs publish.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/schedule/order.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::schedule {

/// A schedule by its name in jobs and plans: "1f1b", "gpipe", "zb-h1" with one chunk on a rank;
/// "interleaved", "looped-bfs" round robin; "zb-v", "v-half", "v-min", "dualpipe-v" V-shaped with
/// two.
struct NamedSchedule {
  std::string_view name;
  std::string_view source;  ///< paper
  bool is_v_shaped = false;
  /// Chunks on a rank; 0: any number from 2 on, which the user gives.
  int per_rank = 1;
  /// Whether its order has backwards in two parts.
  bool splits = false;
};

const std::vector<NamedSchedule>& named_schedules();
std::vector<std::string> schedule_names();
const NamedSchedule* find_schedule(std::string_view name);

/// The placement of a named schedule; `per_rank` counts where the schedule leaves it open.
Placement placement_of(const NamedSchedule& schedule, int ranks, int per_rank);

/// The order of a named schedule. Chunks that are not `split` (by chunk; empty: all are) run whole
/// backwards instead of "I" and "W", at the place of the "I". Throws InputError where the schedule
/// does not exist for these numbers, and says which do.
Order order_of(const NamedSchedule& schedule, int ranks, int per_rank, int micro_batches,
               const std::vector<bool>& split = {});

/// 1F1B with `in_flight` micro-batches on every stage (one chunk on each rank): stage k begins with
/// in_flight[k] - 1 forwards, then alternates (Narayanan et al. 2021; 1F1B*: Beaumont,
/// Eyraud-Dubois and Shilova 2021). A stage with a number of `deferred` splits its backwards and
/// runs each W after that many further backwards (ZB-H1: Qi et al. 2024, with k on stage k); empty:
/// all backwards are whole. Throws InputError where a stage has more in flight than the one before
/// it, for it would wait for inputs that wait for its own gradients, or the last has none.
Order one_f_one_b(const std::vector<int>& in_flight, int micro_batches,
                  const std::vector<std::optional<int>>& deferred = {});
/// All forwards, then all backwards, in the order of micro-batches (GPipe: Huang et al. 2019).
Order gpipe(int stages, int micro_batches);
/// Forwards alone, for validation. A rank with several chunks takes them as passes of equal length
/// could run, the earliest micro-batch first, so that no more outputs wait than need to.
Order forwards_only(const Placement& placement, int micro_batches);

/// Usual number of micro-batches in flight of stage k (0-based) of 1F1B.
int usual_in_flight(int stages, int k, int micro_batches);

}  // namespace trireme::schedule
