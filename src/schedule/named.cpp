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
// time. What the stage before waits for comes first; W's, which no pass waits for, fill the bubble:
//
//     0 | F0 F1 F2 .. .. I0 W0 F3 I1 W1 I2 W2 I3 W3
//     1 | .. F0 F1 .. I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//     2 | .. .. F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/named.h"

#include "makers.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/schedule/slots.h"

#include <algorithm>
#include <cstddef>

namespace trireme::schedule {
namespace {

using Kind = Pass::Kind;

void require_shape(std::string_view of, PipelineShape shape);

/// Whole backwards on chunks that are not split.
std::vector<Pass> with_whole(std::vector<Pass> passes, const std::vector<bool>& split);

/// What its paper says, for one chunk on a rank.
Order one_chunk_each(std::string_view name, int ranks, int micro_batches);

/// `warm_up` forwards, then forward and backward alternately, then the remaining backwards; with
/// `deferred`, backwards in two parts.
std::vector<Pass> alternate(int chunk, int warm_up, int micro_batches, std::optional<int> deferred);

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

std::vector<std::string> schedule_choices() {
  std::vector<std::string> choices = schedule_names();
  choices.insert(choices.begin(), "auto");
  return choices;
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
  require_shape(schedule.per_rank == 1 ? "stages" : "ranks", {ranks, micro_batches});
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
    for (std::vector<Pass>& passes : order) passes = with_whole(passes, split);
  }
  return order;
}

Order one_f_one_b(PipelineShape shape) {
  require_shape("stages", shape);
  std::vector<int> in_flight;
  for (int k = 0; k < shape.stages; ++k) in_flight.push_back(usual_in_flight("1f1b", shape, k));
  return one_f_one_b_with(in_flight, shape.micro_batches);
}

Order one_f_one_b_with(const std::vector<int>& in_flight, int micro_batches,
                       const std::vector<std::optional<int>>& deferred) {
  require_shape("stages", {static_cast<int>(in_flight.size()), micro_batches});
  ensure(deferred.empty() || deferred.size() == in_flight.size(),
         "one_f_one_b_with() needs to know of each stage whether its W's are deferred");
  Order order;
  for (std::size_t k = 0; k < in_flight.size(); ++k) {
    const int next = k + 1 < in_flight.size() ? in_flight[k + 1] : 1;
    if (in_flight[k] < next)
      throw InputError(concat("stage ", k, " has ", in_flight[k],
                              " micro-batches in flight, must have at least ", next,
                              k + 1 < in_flight.size() ? ", as many as the stage after it" : ""));
    order.push_back(alternate(static_cast<int>(k), std::min(in_flight[k] - 1, micro_batches),
                              micro_batches, deferred.empty() ? std::nullopt : deferred[k]));
  }
  return order;
}

Order gpipe(PipelineShape shape) {
  require_shape("stages", shape);
  Order order;
  for (int stage = 0; stage < shape.stages; ++stage)
    order.push_back(alternate(stage, shape.micro_batches, shape.micro_batches, std::nullopt));
  return order;
}

Order forwards_only(const Placement& placement, int micro_batches) {
  require_shape("stages", {static_cast<int>(placement.size()), micro_batches});
  std::vector<std::vector<Pass>> by_chunk;
  for (int chunk = 0; chunk < static_cast<int>(placement.size()); ++chunk)
    by_chunk.emplace_back(static_cast<std::size_t>(micro_batches),
                          Pass{.kind = Kind::kForward, .chunk = chunk});
  return on_ranks(by_chunk, placement);
}

Order with_parts(const Order& order, const std::vector<bool>& split) {
  Order parts;
  for (const std::vector<Pass>& passes : order) {
    std::vector<Pass>& of_rank = parts.emplace_back();
    for (const Pass pass : with_whole(passes, split)) {
      of_rank.push_back(pass);
      if (pass.kind != Kind::kBackward || !split[static_cast<std::size_t>(pass.chunk)]) continue;
      of_rank.back().kind = Kind::kBackwardInput;
      of_rank.push_back({.kind = Kind::kBackwardWeights, .chunk = pass.chunk});
    }
  }
  return parts;
}

bool has_usual_order(std::string_view schedule) {
  return schedule == "1f1b" || schedule == "gpipe";
}

int usual_in_flight(std::string_view schedule, PipelineShape shape, int k) {
  return schedule == "gpipe" ? shape.micro_batches
                             : std::min(shape.stages - k, shape.micro_batches);
}

std::vector<Pass> without_surplus(const std::vector<Pass>& passes, int micro_batches) {
  const std::vector<int> numbers = micro_batches_of(passes);
  std::vector<Pass> kept;
  for (std::size_t i = 0; i < passes.size(); ++i)
    if (numbers[i] < micro_batches) kept.push_back(passes[i]);
  return kept;
}

namespace {

void require_shape(std::string_view of, PipelineShape shape) {
  if (shape.stages >= 1 && shape.micro_batches >= 1) return;
  throw InputError(concat("a pipeline of ", shape.stages, " ", of, " and ", shape.micro_batches,
                          " micro-batches; both must be at least 1"));
}

Order one_chunk_each(std::string_view name, int ranks, int micro_batches) {
  const PipelineShape shape{ranks, micro_batches};
  std::vector<int> in_flight;
  std::vector<std::optional<int>> deferred(static_cast<std::size_t>(ranks));
  for (int k = 0; k < ranks; ++k) {
    in_flight.push_back(usual_in_flight(name, shape, k));
    if (name == "zb-h1") deferred[static_cast<std::size_t>(k)] = k;
  }
  return one_f_one_b_with(in_flight, micro_batches, deferred);
}

std::vector<Pass> with_whole(std::vector<Pass> passes, const std::vector<bool>& split) {
  const auto is_split = [&](Pass pass) { return split[static_cast<std::size_t>(pass.chunk)]; };
  std::erase_if(passes,
                [&](Pass pass) { return pass.kind == Kind::kBackwardWeights && !is_split(pass); });
  for (Pass& pass : passes)
    if (pass.kind == Kind::kBackwardInput && !is_split(pass)) pass.kind = Kind::kBackward;
  return passes;
}

std::vector<Pass> alternate(int chunk, int warm_up, int micro_batches,
                            std::optional<int> deferred) {
  std::vector<Pass> passes(static_cast<std::size_t>(warm_up), {Kind::kForward, chunk});
  for (int m = 0; m < micro_batches; ++m) {
    if (warm_up + m < micro_batches) passes.push_back({Kind::kForward, chunk});
    passes.push_back({deferred ? Kind::kBackwardInput : Kind::kBackward, chunk});
    if (deferred && m >= *deferred) passes.push_back({Kind::kBackwardWeights, chunk});
  }
  const int left = deferred ? std::min(*deferred, micro_batches) : 0;
  passes.insert(passes.end(), static_cast<std::size_t>(left), {Kind::kBackwardWeights, chunk});
  return passes;
}

}  // namespace
}  // namespace trireme::schedule
