// The orders of passes and the programs that need no solver.
//
// 1F1B (Narayanan et al. 2021, figure 4, the flushed schedule of PipeDream-Flush), 3 stages, 4
// micro-batches:
//
//     0 | F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3
//     1 | .. F0 F1 .. B0 F2 B1 F3 B2 .. B3 ..
//     2 | .. .. F0 B0 F1 B1 F2 B2 F3 B3 .. ..
//
// Stage k of p runs p-1-k forwards ahead, so that its first backward finds it with p-k in flight.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/generate.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::program {
namespace {

void require_shape(PipelineShape shape);

/// `warm_up` forwards, then forward and backward alternately, then the remaining backwards.
std::vector<Pass> alternate(int warm_up, int micro_batches);

/// {op, i} for i from `from` to `to`, downwards if `to` is less.
std::vector<Action> each(Op op, int from, int to);

}  // namespace

PassOrder one_f_one_b(PipelineShape shape) {
  require_shape(shape);
  PassOrder order;
  for (int stage = 0; stage < shape.stages; ++stage)
    order.push_back(
        alternate(std::min(shape.stages - 1 - stage, shape.micro_batches), shape.micro_batches));
  return order;
}

PassOrder one_f_one_b_with(const std::vector<int>& in_flight, int micro_batches) {
  require_shape({static_cast<int>(in_flight.size()), micro_batches});
  PassOrder order;
  for (std::size_t k = 0; k < in_flight.size(); ++k) {
    const int next = k + 1 < in_flight.size() ? in_flight[k + 1] : 1;
    if (in_flight[k] < next)
      throw InputError(concat("stage ", k, " has ", in_flight[k],
                              " micro-batches in flight, must have at least ", next,
                              k + 1 < in_flight.size() ? ", as many as the stage after it" : ""));
    order.push_back(alternate(std::min(in_flight[k] - 1, micro_batches), micro_batches));
  }
  return order;
}

PassOrder gpipe(PipelineShape shape) {
  require_shape(shape);
  PassOrder order;
  order.assign(static_cast<std::size_t>(shape.stages),
               alternate(shape.micro_batches, shape.micro_batches));
  return order;
}

PassOrder pass_order(std::string_view schedule, const std::vector<int>& in_flight,
                     int micro_batches) {
  if (schedule == "gpipe") return gpipe({static_cast<int>(in_flight.size()), micro_batches});
  return one_f_one_b_with(in_flight, micro_batches);
}

int usual_in_flight(std::string_view schedule, int stages, int k, int micro_batches) {
  return schedule == "gpipe" ? micro_batches : std::min(stages - k, micro_batches);
}

PassOrder forwards_only(PipelineShape shape) {
  require_shape(shape);
  std::vector<Pass> passes;
  for (int m = 0; m < shape.micro_batches; ++m) passes.push_back({Pass::Kind::kForward, m});
  PassOrder order;
  order.assign(static_cast<std::size_t>(shape.stages), passes);
  return order;
}

StageProgram keep_all(int first_layer, int last_layer) {
  return {first_layer, last_layer, each(Op::kForwardTape, first_layer, last_layer),
          each(Op::kBackward, last_layer, first_layer)};
}

StageProgram recompute_all(int first_layer, int last_layer) {
  // x[last] is sent or replaced by its gradient, and the backward of i+1 frees x[i]: when the tape
  // of i is recomputed, no second x[i] is held.
  StageProgram program{
      first_layer, last_layer, each(Op::kForwardKeep, first_layer, last_layer), {}};
  for (int i = last_layer; i >= first_layer; --i) {
    program.backward.push_back({Op::kForwardTape, i});
    program.backward.push_back({Op::kBackward, i});
  }
  return program;
}

StageProgram evaluate(int first_layer, int last_layer) {
  return {first_layer, last_layer, each(Op::kForward, first_layer, last_layer), {}};
}

namespace {

void require_shape(PipelineShape shape) {
  if (shape.stages >= 1 && shape.micro_batches >= 1) return;
  throw InputError(concat("a pipeline of ", shape.stages, " stages and ", shape.micro_batches,
                          " micro-batches; both must be at least 1"));
}

std::vector<Pass> alternate(int warm_up, int micro_batches) {
  std::vector<Pass> passes;
  passes.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (int m = 0; m < warm_up; ++m) passes.push_back({Pass::Kind::kForward, m});
  for (int m = 0; m < micro_batches; ++m) {
    if (warm_up + m < micro_batches) passes.push_back({Pass::Kind::kForward, warm_up + m});
    passes.push_back({Pass::Kind::kBackward, m});
  }
  return passes;
}

std::vector<Action> each(Op op, int from, int to) {
  std::vector<Action> actions;
  const int step = from <= to ? 1 : -1;
  for (int i = from; i != to + step; i += step) actions.push_back({op, i});
  return actions;
}

}  // namespace
}  // namespace trireme::program
