// SPDX-License-Identifier: Apache-2.0
#include "schedule/workloads.h"

namespace trireme::schedule {

Workload drawn_workload(const Size& size, Drawn& drawn) {
  Workload made;
  made.placement = drawn.one_in(2) ? v_shaped(size.ranks, size.per_rank)
                                   : round_robin(size.ranks, size.per_rank);
  made.micro_batches = size.micro_batches;
  made.capacity = drawn.one_in(4) ? 1 : 2;
  const bool is_even = drawn.one_in(3);
  const bool has_messages = drawn.one_in(2);
  const bool has_ahead = drawn.one_in(4);
  const bool has_more = drawn.one_in(3);
  std::vector<std::int64_t> least(static_cast<std::size_t>(size.ranks));
  for (std::size_t c = 0; c < made.placement.size(); ++c) {
    ChunkCosts costs;
    costs.forward = Seconds(drawn.from(1, 9));
    costs.backward = Seconds(drawn.from(1, 9));
    costs.weights = Seconds(drawn.one_in(4) ? 0 : drawn.from(1, 9));
    if (has_ahead) costs.ahead = Seconds(drawn.from(0, static_cast<int>(costs.backward.count())));
    costs.kept = Bytes(drawn.from(1, 6));
    const int pending = drawn.from(0, static_cast<int>(costs.kept.count()));
    if (costs.is_split()) costs.pending = Bytes(pending);
    if (has_more) costs.forward_more = Bytes(drawn.from(0, 2));
    if (has_more) costs.backward_more = Bytes(drawn.from(0, 3));
    made.chunks.push_back(is_even && c > 0 ? made.chunks[0] : costs);
    least[static_cast<std::size_t>(made.placement[c])] += made.chunks.back().kept.count();
    if (c + 1 < made.placement.size())
      made.messages.emplace_back(has_messages ? drawn.from(0, 4) : 0);
  }
  if (drawn.one_in(6)) return made;
  for (const std::int64_t one : least)
    made.room.emplace_back(one * drawn.from(7, 4 + 6 * size.micro_batches) / 8 + drawn.from(0, 3));
  return made;
}

Workload Even::workload() const {
  constexpr double kUnit = 1 << 20;
  Workload made;
  made.placement = v_shaped(size.ranks, size.per_rank);
  made.micro_batches = size.micro_batches;
  const Bytes kept(static_cast<std::int64_t>(kUnit) / size.per_rank);
  made.chunks.assign(made.placement.size(), {.forward = Seconds(forward / size.per_rank),
                                             .backward = Seconds(backward / size.per_rank),
                                             .weights = Seconds(weights / size.per_rank),
                                             .kept = kept,
                                             .pending = kept});
  made.messages.assign(made.placement.size() - 1, Seconds(0));
  made.room.assign(static_cast<std::size_t>(size.ranks),
                   Bytes(static_cast<std::int64_t>(room * kUnit + 0.5)));
  return made;
}

}  // namespace trireme::schedule
