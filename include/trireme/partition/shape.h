// What `auto` leaves open beside cut and programs: stages x replicas, and the size of
// micro-batches.
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

/// What is fixed stays fixed. Ranks of one replica are neighbours: stage k of replica j is on rank
/// j x stages + k.
struct ShapeQuestion {
  /// The chain at a micro-batch size, measured or estimated; asked once for each size.
  std::function<chain::Chain(int micro_batch)> chain_at;
  int ranks = 1;  ///< of the platform, all of which are used
  int batch = 1;  ///< examples per step, over all replicas
  std::optional<int> stages, replicas, micro_batch, micro_batches;
  /// What every shape is asked beside what makes it one: the platform is that of all ranks, `cut`
  /// is for fixed `stages`, `group` is no more than a shape has micro-batches.
  Question common = {};
  bool shard_optimizer = true;     ///< replicas divide the optimizer's state
  std::string weights = "device";  ///< where those are that may leave: see streamed_layers_of()
};

struct TriedShape {
  Shape shape;
  /// Nothing where even without recomputation and waits it would be slower than the best before it,
  /// or where the solver takes no such question; then `refused` says why.
  std::optional<Answer> answer;
  std::string refused = {};
  /// The answer is that of quick_plan(): another shape is faster by more than such plans are off.
  bool is_quick = false;
  Seconds least{0};   ///< a step cannot be faster
  Seconds reduce{0};  ///< gradients of all replicas added up, at the end of a step

  const plan::Plan* plan() const { return answer ? std::get_if<plan::Plan>(&*answer) : nullptr; }
  Seconds step() const { return plan()->step + reduce; }
};

struct ShapeAnswer {
  std::vector<TriedShape> tried;      ///< in the order of their least steps
  std::optional<std::size_t> chosen;  ///< the fastest; nothing if none fits
};

/// All that fit what is fixed; chains shorter than a pipeline count, too. Throws InputError when
/// there are none.
std::vector<Shape> shapes_of(const ShapeQuestion& question);

/// Every shape that there is for so many ranks and such a batch, planned quickly, and those that
/// come near the fastest thoroughly; several at a time, with the same answer however many. Throws
/// InputError when what is fixed leaves none, or none that the solver takes.
ShapeAnswer choose_shape(const ShapeQuestion& question);

/// Of an answer without a plan, the shape that was planned and lacks least.
std::size_t leanest(const ShapeAnswer& answer);

/// The shapes that were planned, as a table: step, largest peak, or why not; and how many were not.
std::string to_text(const ShapeAnswer& answer);

/// What planning for such a shape is asked: every stage on the slowest and smallest of its ranks in
/// all replicas, for they wait for one another.
Question question_of(const ShapeQuestion& question, const Shape& shape, chain::Chain chain);

/// An estimate from one measurement: times and bytes of activations in proportion to the size of
/// the micro-batch, parameters as they are. Small micro-batches really are slower than that.
chain::Chain scaled_chain(const chain::Chain& chain, int measured_at, int micro_batch);

/// A chain measured at some size of the micro-batch.
struct SizedChain {
  int micro_batch = 1;
  chain::Chain chain;
};

/// An estimate from two measurements of one model at different sizes: every cost on the straight
/// line through both, at least 0. Exact where costs are something for each example and something
/// fixed, as outputs, tapes and static bytes are; near for transients and times.
chain::Chain chain_between(const SizedChain& a, const SizedChain& b, int micro_batch);

/// Seconds in which `replicas` add up the gradients of all ranks of a plan, each rank with its
/// like: 2 (r - 1) / r times the bytes at the rate of the slowest link between neighbours, as a
/// ring does it (Patarasuk and Yuan 2009), and 2 (r - 1) latencies. With shards of the optimizer's
/// state updated weights take the second half of the way in place of gradients.
Seconds reduce_time(const ShapeQuestion& question, const Shape& shape, const chain::Chain& chain,
                    const plan::Plan& plan);
/// Of any plan of that shape.
Seconds least_reduce_time(const ShapeQuestion& question, const Shape& shape,
                          const chain::Chain& chain);

}  // namespace trireme::partition
