// The choice of stages x replicas and the micro-batch size, made around the planner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/core/units.h"
#include "trireme/partition/problem.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trireme::partition {

struct Shape {
  int stages = 1, replicas = 1;
  int micro_batch = 1;    ///< examples
  int micro_batches = 1;  ///< per step and replica

  bool operator==(const Shape&) const = default;
};

/// Fixed values are kept. Ranks of one replica are neighbours: stage k of replica j is on rank j x
/// stages + k.
struct ShapeQuestion {
  /// The chain at a micro-batch size, measured or estimated; asked once for each size.
  std::function<chain::Chain(int micro_batch)> chain_at;
  int ranks = 1;  ///< ranks of the platform, all used
  int batch = 1;  ///< examples per step, over all replicas
  std::optional<int> stages, replicas, micro_batch, micro_batches;
  /// The question common to all shapes: `platform` is that of all ranks, `cut` is for fixed
  /// `stages`, and `group` is limited to a shape's micro-batches.
  Question common = {};
  bool shard_optimizer = true;     ///< ZeRO-1 over the replicas
  std::string weights = "device";  ///< placement of streamable weights: see streamed_layers_of()
};

struct TriedShape {
  Shape shape;
  /// Empty where the shape's lower bound is above the best step before it, or where the solver
  /// rejects the question (see `refused`).
  std::optional<Answer> answer;
  std::string refused = {};
  /// The answer is from quick_plan(): another shape is faster by more than the error of such plans.
  bool is_quick = false;
  Seconds least{0};   ///< lower bound of a step
  Seconds reduce{0};  ///< gradient all-reduce over the replicas, at the end of a step

  const plan::Plan* plan() const { return answer ? std::get_if<plan::Plan>(&*answer) : nullptr; }
  Seconds step() const { return plan()->step + reduce; }
};

struct ShapeAnswer {
  std::vector<TriedShape> tried;      ///< by ascending lower bound
  std::optional<std::size_t> chosen;  ///< the fastest; nothing if none fits
};

/// All shapes that match the fixed values, also those with more stages than the chain has layers.
/// Throws InputError when there are none.
std::vector<Shape> shapes_of(const ShapeQuestion& question);

/// Plans every possible shape quickly and those near the fastest thoroughly, several in parallel;
/// the answer does not depend on the number of threads. Throws InputError when the fixed values
/// leave no shape, or none that the solver takes.
ShapeAnswer choose_shape(const ShapeQuestion& question);

/// Index of the planned shape that lacks the least memory, of an answer without a plan.
std::size_t leanest(const ShapeAnswer& answer);

/// A table of the planned shapes: step and largest peak, or why there is none; and how many were
/// skipped.
std::string to_text(const ShapeAnswer& answer);

/// The planner's question for a shape: every stage has the least speed and memory among its ranks
/// over all replicas, since replicas wait for one another.
Question question_of(const ShapeQuestion& question, const Shape& shape, chain::Chain chain);

/// Estimates a chain from one measurement: times and activation bytes scale with the micro-batch
/// size, parameters do not. Small micro-batches are slower than that in practice.
chain::Chain scaled_chain(const chain::Chain& chain, int measured_at, int micro_batch);

/// A chain measured at some size of the micro-batch.
struct SizedChain {
  int micro_batch = 1;
  chain::Chain chain;
};

/// Estimates a chain from two measurements of one model: every cost by linear inter- or
/// extrapolation, at least 0. Exact for costs that are affine in the number of examples, as
/// outputs, tapes and static bytes are; approximate for transients and times.
chain::Chain chain_between(const SizedChain& a, const SizedChain& b, int micro_batch);

/// Seconds for the all-reduce over replicas, each rank with its counterparts: 2 (r - 1) / r times
/// the bytes at the rate of the slowest link between neighbours, as in a ring (Patarasuk and Yuan
/// 2009), plus 2 (r - 1) latencies. With a sharded optimizer the second half carries updated
/// weights instead of gradients.
Seconds reduce_time(const ShapeQuestion& question, const Shape& shape, const chain::Chain& chain,
                    const plan::Plan& plan);
/// Lower bound of reduce_time() over all plans of the shape.
Seconds least_reduce_time(const ShapeQuestion& question, const Shape& shape,
                          const chain::Chain& chain);

}  // namespace trireme::partition
