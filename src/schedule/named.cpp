// 1F1B (Narayanan et al. 2021, figure 4, the flushed schedule of PipeDream-Flush), 3 stages, 4
// micro-batches:
//
//     0 | F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3
//     1 | .. F0 F1 .. B0 F2 B1 F3 B2 .. B3 ..
//     2 | .. .. F0 B0 F1 B1 F2 B2 F3 B3 .. ..
//
// Stage k of p runs p-1-k forwards ahead, so that its first backward finds it with p-k in flight.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/named.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/schedule/slots.h"

#include <algorithm>

namespace trireme::schedule {
namespace {

using Kind = Pass::Kind;

void require_shape(PipelineShape shape) {
  if (shape.stages >= 1 && shape.micro_batches >= 1) return;
  throw InputError(concat("a pipeline of ", shape.stages, " stages and ", shape.micro_batches,
                          " micro-batches; both must be at least 1"));
}

/// `warm_up` forwards, then forward and backward alternately, then the remaining backwards; with
/// `deferred`, backwards in two parts.
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

Order one_f_one_b(PipelineShape shape) {
  require_shape(shape);
  std::vector<int> in_flight;
  for (int k = 0; k < shape.stages; ++k) in_flight.push_back(usual_in_flight("1f1b", shape, k));
  return one_f_one_b_with(in_flight, shape.micro_batches);
}

Order one_f_one_b_with(const std::vector<int>& in_flight, int micro_batches,
                       const std::vector<std::optional<int>>& deferred) {
  require_shape({static_cast<int>(in_flight.size()), micro_batches});
  Order order;
  for (std::size_t k = 0; k < in_flight.size(); ++k) {
    const int next = k + 1 < in_flight.size() ? in_flight[k + 1] : 1;
    if (in_flight[k] < next)
      throw InputError(concat("stage ", k, " has ", in_flight[k],
                              " micro-batches in flight, must have at least ", next,
                              k + 1 < in_flight.size() ? ", as many as the stage after it" : ""));
    order.push_back(alternate(static_cast<int>(k), std::min(in_flight[k] - 1, micro_batches),
                              micro_batches, deferred.empty() ? std::nullopt : deferred.at(k)));
  }
  return order;
}

Order gpipe(PipelineShape shape) {
  require_shape(shape);
  Order order;
  for (int k = 0; k < shape.stages; ++k)
    order.push_back(alternate(k, shape.micro_batches, shape.micro_batches, std::nullopt));
  return order;
}

Order forwards_only(const Placement& placement, int micro_batches) {
  require_shape({static_cast<int>(placement.size()), micro_batches});
  std::vector<std::vector<Pass>> by_chunk;
  for (int chunk = 0; chunk < static_cast<int>(placement.size()); ++chunk)
    by_chunk.emplace_back(static_cast<std::size_t>(micro_batches), Pass{Kind::kForward, chunk});
  return on_ranks(by_chunk, placement);
}

int usual_in_flight(std::string_view schedule, PipelineShape shape, int k) {
  return schedule == "gpipe" ? shape.micro_batches
                             : std::min(shape.stages - k, shape.micro_batches);
}

}  // namespace trireme::schedule
