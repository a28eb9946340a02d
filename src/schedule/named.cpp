// Schedules by name, and those with one chunk on a rank.
//
// 1F1B (Narayanan et al. 2021, figure 4, the flushed schedule of PipeDream-Flush), 3 stages, 4
// micro-batches:
//
//     0 | F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3
//     1 | .. F0 F1 .. B0 F2 B1 F3 B2 .. B3 ..
//     2 | .. .. F0 B0 F1 B1 F2 B2 F3 B3 .. ..
//
// Stage k of p runs p-1-k forwards ahead, so that its first backward finds it with p-k in flight.
//
// With the W's of stage k deferred by k further backwards this is ZB-H1 (Qi et al. 2024, Zero
// Bubble Pipeline Parallelism), whose ranks wait a third as long where F, I and W take the same
// time. What the stage before waits for comes first; W's, which nobody waits for, fill the bubble:
//
//     0 | F0 F1 F2 .. .. I0 W0 F3 I1 W1 I2 W2 I3 W3
//     1 | .. F0 F1 .. I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//     2 | .. .. F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/named.h"

#include "makers.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme::schedule {
namespace {

using Kind = Pass::Kind;

void require_shape(std::string_view of, int number, int micro_batches);

/// What its paper says, for one chunk on a rank.
Order one_chunk_each(std::string_view name, int ranks, int micro_batches);
/// Whole backwards on chunks that are not split.
void make_whole(Order& order, const std::vector<bool>& split);

/// `warm_up` forwards, then forward and backward alternately, then the remaining backwards.
std::vector<Pass> alternate(int chunk, int warm_up, int micro_batches);
/// Splits the backwards of a rank with one chunk: the W of each stands right behind the
/// `deferred`-th I after its own, or else at the end.
std::vector<Pass> with_deferred_weights(const std::vector<Pass>& passes, int deferred);

/// Of a rank's chunks the one whose forward should run next of those that may; `runs` counts, by
/// chunk, forwards that have ended.
std::optional<int> next_forward(const std::vector<int>& chunks, const std::vector<int>& runs,
                                int micro_batches);

}  // namespace

const std::vector<NamedSchedule>& named_schedules() {
  constexpr std::string_view kZeroBubble = "Qi et al. 2024, Zero Bubble Pipeline Parallelism";
  constexpr std::string_view kControllable =
      "Qi et al. 2024, Pipeline Parallelism with Controllable Memory";
  static const std::vector<NamedSchedule> schedules{
      {.name = "1f1b",
       .source = "Narayanan et al. 2021, Memory-Efficient Pipeline-Parallel DNN Training"},
      {.name = "gpipe", .source = "Huang et al. 2019, GPipe"},
      {.name = "zb-h1", .source = kZeroBubble, .splits = true},
      {.name = "interleaved",
       .source = "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU "
                 "Clusters Using Megatron-LM",
       .per_rank = 0},
      {.name = "looped-bfs",
       .source = "Lamy-Poirier 2023, Breadth-First Pipeline Parallelism",
       .per_rank = 0},
      {.name = "zb-v", .source = kZeroBubble, .is_v_shaped = true, .per_rank = 2, .splits = true},
      {.name = "v-half",
       .source = kControllable,
       .is_v_shaped = true,
       .per_rank = 2,
       .splits = true},
      {.name = "v-min",
       .source = kControllable,
       .is_v_shaped = true,
       .per_rank = 2,
       .splits = true},
      {.name = "dualpipe-v",
       .source = "DeepSeek-AI 2024, DeepSeek-V3 Technical Report (DualPipe), cut in half by Qi et "
                 "al. 2025",
       .is_v_shaped = true,
       .per_rank = 2,
       .splits = true}};
  return schedules;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const NamedSchedule& schedule : named_schedules()) names.emplace_back(schedule.name);
  return names;
}

const NamedSchedule* find_schedule(std::string_view name) {
  for (const NamedSchedule& schedule : named_schedules())
    if (schedule.name == name) return &schedule;
  return nullptr;
}

Placement placement_of(const NamedSchedule& schedule, int ranks, int per_rank) {
  const int chunks = schedule.per_rank == 0 ? per_rank : schedule.per_rank;
  return schedule.is_v_shaped ? v_shaped(ranks, chunks) : round_robin(ranks, chunks);
}

Order order_of(const NamedSchedule& schedule, int ranks, int per_rank, int micro_batches,
               const std::vector<bool>& split) {
  require_shape(schedule.per_rank == 1 ? "stages" : "ranks", ranks, micro_batches);
  if (schedule.per_rank == 0 && per_rank < 2)
    throw InputError(concat(schedule.name, " with ", per_rank,
                            " chunks on a rank, must be at least 2; with one, take 1f1b"));
  Order order;
  if (schedule.name == "interleaved")
    order = interleaved(ranks, per_rank, micro_batches);
  else if (schedule.name == "looped-bfs")
    order = looped_bfs(ranks, per_rank, micro_batches);
  else if (schedule.name == "zb-v")
    order = zb_v(ranks, micro_batches);
  else if (schedule.name == "v-half")
    order = v_half(ranks, micro_batches);
  else if (schedule.name == "v-min")
    order = v_min(ranks, micro_batches);
  else if (schedule.name == "dualpipe-v")
    order = dualpipe_v(ranks, micro_batches);
  else
    order = one_chunk_each(schedule.name, ranks, micro_batches);
  if (!split.empty()) {
    ensure(split.size() == placement_of(schedule, ranks, per_rank).size(),
           "order_of() needs to know of each chunk whether it is split");
    make_whole(order, split);
  }
  return order;
}

Order one_f_one_b(const std::vector<int>& in_flight, int micro_batches,
                  const std::vector<std::optional<int>>& deferred) {
  require_shape("stages", static_cast<int>(in_flight.size()), micro_batches);
  ensure(deferred.empty() || deferred.size() == in_flight.size(),
         "one_f_one_b() needs to know of each stage whether its W's are deferred");
  Order order;
  for (std::size_t k = 0; k < in_flight.size(); ++k) {
    const int next = k + 1 < in_flight.size() ? in_flight[k + 1] : 1;
    if (in_flight[k] < next)
      throw InputError(concat("stage ", k, " has ", in_flight[k],
                              " micro-batches in flight, must have at least ", next,
                              k + 1 < in_flight.size() ? ", as many as the stage after it" : ""));
    order.push_back(
        alternate(static_cast<int>(k), std::min(in_flight[k] - 1, micro_batches), micro_batches));
    if (!deferred.empty() && deferred[k])
      order.back() = with_deferred_weights(order.back(), *deferred[k]);
  }
  return order;
}

Order gpipe(int stages, int micro_batches) {
  require_shape("stages", stages, micro_batches);
  Order order;
  for (int stage = 0; stage < stages; ++stage)
    order.push_back(alternate(stage, micro_batches, micro_batches));
  return order;
}

Order forwards_only(const Placement& placement, int micro_batches) {
  require_shape("stages", static_cast<int>(placement.size()), micro_batches);
  const auto ranks = static_cast<std::size_t>(ranks_of(placement));
  std::vector<std::vector<int>> chunks(ranks);
  for (std::size_t chunk = 0; chunk < placement.size(); ++chunk)
    chunks[static_cast<std::size_t>(placement[chunk])].push_back(static_cast<int>(chunk));
  // One pass on every rank at a time: the earliest micro-batch in each, the furthest chunk with it.
  Order order(ranks);
  std::vector<int> runs(placement.size());
  while (runs.back() < micro_batches) {
    const std::vector<int> before = runs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto chunk = next_forward(chunks[rank], before, micro_batches);
      if (!chunk) continue;
      order[rank].push_back({.kind = Kind::kForward, .chunk = *chunk});
      ++runs[static_cast<std::size_t>(*chunk)];
    }
  }
  return order;
}

int usual_in_flight(int stages, int k, int micro_batches) {
  return std::min(stages - k, micro_batches);
}

std::vector<Pass> without_surplus(const std::vector<Pass>& passes, int micro_batches) {
  const std::vector<int> numbers = micro_batches_of(passes);
  std::vector<Pass> kept;
  for (std::size_t i = 0; i < passes.size(); ++i)
    if (numbers[i] < micro_batches) kept.push_back(passes[i]);
  return kept;
}

namespace {

void require_shape(std::string_view of, int number, int micro_batches) {
  if (number >= 1 && micro_batches >= 1) return;
  throw InputError(concat("a pipeline of ", number, " ", of, " and ", micro_batches,
                          " micro-batches; both must be at least 1"));
}

Order one_chunk_each(std::string_view name, int ranks, int micro_batches) {
  if (name == "gpipe") return gpipe(ranks, micro_batches);
  std::vector<int> in_flight;
  std::vector<std::optional<int>> deferred;
  for (int k = 0; k < ranks; ++k) {
    in_flight.push_back(usual_in_flight(ranks, k, micro_batches));
    if (name == "zb-h1") deferred.emplace_back(k);
  }
  return one_f_one_b(in_flight, micro_batches, deferred);
}

void make_whole(Order& order, const std::vector<bool>& split) {
  const auto is_split = [&](Pass pass) { return split[static_cast<std::size_t>(pass.chunk)]; };
  for (std::vector<Pass>& passes : order) {
    std::erase_if(
        passes, [&](Pass pass) { return pass.kind == Kind::kBackwardWeights && !is_split(pass); });
    for (Pass& pass : passes)
      if (pass.kind == Kind::kBackwardInput && !is_split(pass)) pass.kind = Kind::kBackward;
  }
}

std::vector<Pass> alternate(int chunk, int warm_up, int micro_batches) {
  const Pass forward{.kind = Kind::kForward, .chunk = chunk};
  std::vector<Pass> passes(static_cast<std::size_t>(warm_up), forward);
  passes.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (int m = 0; m < micro_batches; ++m) {
    if (warm_up + m < micro_batches) passes.push_back(forward);
    passes.push_back({.kind = Kind::kBackward, .chunk = chunk});
  }
  return passes;
}

std::vector<Pass> with_deferred_weights(const std::vector<Pass>& passes, int deferred) {
  ensure(deferred >= 0, "W's are deferred by 0 backwards or more");
  std::vector<Pass> split;
  int waiting = 0;
  for (Pass pass : passes) {
    const Pass weights{.kind = Kind::kBackwardWeights, .chunk = pass.chunk};
    if (pass.kind == Kind::kBackward) {
      pass.kind = Kind::kBackwardInput;
      ++waiting;
    }
    split.push_back(pass);
    if (waiting > deferred) {
      split.push_back(weights);
      --waiting;
    }
  }
  split.insert(split.end(), static_cast<std::size_t>(waiting),
               {.kind = Kind::kBackwardWeights, .chunk = passes.back().chunk});
  return split;
}

std::optional<int> next_forward(const std::vector<int>& chunks, const std::vector<int>& runs,
                                int micro_batches) {
  std::optional<int> best;
  const auto micro_batch = [&](int chunk) { return runs[static_cast<std::size_t>(chunk)]; };
  for (const int chunk : chunks) {
    const int now = micro_batch(chunk);
    const bool may_run = now < (chunk == 0 ? micro_batches : micro_batch(chunk - 1));
    if (may_run && (!best || now <= micro_batch(*best))) best = chunk;
  }
  return best;
}

}  // namespace
}  // namespace trireme::schedule
