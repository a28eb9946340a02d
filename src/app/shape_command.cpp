// SPDX-License-Identifier: Apache-2.0
#include "shape_command.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <cmath>
#include <cstdint>
#include <utility>

namespace trireme::app {
namespace {

/// Throws InputError where the bytes of a micro-batch with all examples might overflow.
void require_countable(const chain::Chain& chain, const PlanArguments& arguments) {
  constexpr double kMost = std::int64_t{1} << 50;  // a pebibyte
  double all = 1;
  for (const chain::LayerCost& layer : chain.layers)
    for (const Bytes size : {layer.output, layer.tape, layer.forward_transient,
                             layer.tape_transient, layer.backward_transient})
      all += static_cast<double>(size.count());
  const double most = std::floor(kMost / all * arguments.measured_at);
  if (arguments.batch <= most) return;
  throw InputError(concat("--batch: is ", arguments.batch, ", must be at most ",
                          static_cast<std::int64_t>(most),
                          ": the activations of more would take a pebibyte"));
}

}  // namespace

partition::ShapeQuestion shape_question(const PlanArguments& arguments, chain::Platform platform) {
  if (arguments.batch < 1 || arguments.measured_at < 1)
    throw InputError(
        "--ranks: needs --batch, the examples of a step, and --micro-batch-size, the examples of a "
        "micro-batch with which the chain was measured");
  if (arguments.sweep > 0 || !arguments.cut.empty())
    throw InputError("--ranks: chooses the number of stages; --cut and --sweep need a fixed one");
  if (arguments.solver == "all")
    throw InputError("--solver all: is for one stage, but --ranks chooses their number");
  const chain::Chain measured = chain::load_chain(arguments.chain);
  require_countable(measured, arguments);
  partition::ShapeQuestion question;
  question.chain_at = [chain = measured, measured_at = arguments.measured_at](int micro_batch) {
    return partition::scaled_chain(chain, measured_at, micro_batch);
  };
  question.ranks = arguments.ranks;
  question.batch = arguments.batch;
  if (arguments.stages_given) question.stages = arguments.stages;
  if (arguments.replicas > 0) question.replicas = arguments.replicas;
  if (arguments.micro_batches_given) question.micro_batches = arguments.micro_batches;
  take_options(arguments, question.common);
  question.common.platform = std::move(platform);
  question.shard_optimizer = arguments.shard_optimizer;
  question.weights = arguments.weights;
  return question;
}

}  // namespace trireme::app
