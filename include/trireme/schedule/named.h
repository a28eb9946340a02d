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
/// What a user may ask for: "auto", where the planner decides, and all names.
std::vector<std::string> schedule_choices();
const NamedSchedule* find_schedule(std::string_view name);

/// The placement of a named schedule; `per_rank` counts where the schedule leaves it open.
Placement placement_of(const NamedSchedule& schedule, int ranks, int per_rank);

/// The order of a named schedule. Chunks that are not `split` (by chunk; empty: all are) run whole
/// backwards instead of "I" and "W", at the place of the "I". Throws InputError where the schedule
/// does not exist for these numbers, and says which do.
Order order_of(const NamedSchedule& schedule, int ranks, int per_rank, int micro_batches,
               const std::vector<bool>& split = {});

/// Stages, each on a rank of its own, and micro-batches of a schedule, both >= 1.
struct PipelineShape {
  int stages = 1;
  int micro_batches = 1;
};

/// 1F1B with a flush (Narayanan et al. 2021): stage k (0-based) has min(p - k, m) micro-batches in
/// flight.
Order one_f_one_b(PipelineShape shape);
/// The same order with other numbers in flight, one per stage: stage k begins with in_flight[k] - 1
/// forwards, then alternates. Fewer hold less memory and may wait more (1F1B*: Beaumont,
/// Eyraud-Dubois and Shilova 2021). A stage with a number of `deferred` splits its backwards and
/// runs each W after that many further backwards (ZB-H1, Qi et al. 2024, has k on stage k); empty:
/// all backwards are whole. Throws InputError where a stage has more in flight than the one before
/// it, for it would wait for inputs that wait for its own gradients, or the last has none.
Order one_f_one_b_with(const std::vector<int>& in_flight, int micro_batches,
                       const std::vector<std::optional<int>>& deferred = {});
/// All forwards, then all backwards, both in the order of micro-batches (GPipe: Huang et al. 2019).
Order gpipe(PipelineShape shape);
/// Forwards alone, for validation: several chunks on a rank take turns as passes of equal length
/// would, the earliest micro-batch first.
Order forwards_only(const Placement& placement, int micro_batches);

/// The order with backwards in two parts on the chunks that are `split`, and whole ones on the
/// others: a "B" becomes "I" and "W" next to each other, an "I" a "B", whose "W" goes.
Order with_parts(const Order& order, const std::vector<bool>& split);

/// Whether the name is "1f1b" or "gpipe", whose orders follow from numbers in flight.
bool has_usual_order(std::string_view schedule);
/// Usual number of micro-batches in flight of stage k (0-based) of "1f1b" or "gpipe".
int usual_in_flight(std::string_view schedule, PipelineShape shape, int k);

}  // namespace trireme::schedule
