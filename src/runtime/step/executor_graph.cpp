// The executor's passes of a model that is a graph: outputs and gradients, each a value of its own.
// SPDX-License-Identifier: Apache-2.0
#include "step/buffer_guard.h"
#include "step/executor.h"

#include "trireme/core/error.h"
#include "trireme/model/taped.h"
#include "trireme/tier/memory.h"

#include <utility>

namespace trireme::runtime {

using program::Action;

void Executor::begin_micro_batch(int micro_batch) {
  if (micro_batch == run_.micro_batch) return;
  end_micro_batch();
  run_.micro_batch = micro_batch;
}

void Executor::end_micro_batch() {
  if (run_.micro_batch < 0 || !run_.training) return;
  run_.traces.clear();
  run_.targets.clear();
  run_.values.take_gradient({parts_.graph->layers(), run_.micro_batch});
  run_.micro_batch = -1;
}

void Executor::compute(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const bool repeated = run_.ran.contains(key);
  const Stopwatch watch(clock_, repeated ? run_.result.times.recompute : run_.result.times.forward);
  model::Layer& layer = parts_.stage.layer(action.layer);
  const BufferGuard buffers(layer, repeated);
  model::Values inputs;
  for (const int input : parts_.graph->inputs(action.layer))
    inputs.push_back(run_.values.output({input, action.micro_batch}).at(0));
  in_layer_of(action.layer, [&] {
    if (repeated || !run_.training) {
      run_.values.put_output(
          key, model::untaped_forward(layer, inputs, context_of(action), options_.precision));
      return;
    }
    model::Traced traced =
        model::traced_forward(layer, inputs, context_of(action), options_.precision,
                              parts_.graph->wants_gradient(action.layer));
    run_.traces.insert_or_assign(action.layer, std::move(traced.trace));
    run_.values.put_output(key, {std::move(traced.output)});
  });
  run_.ran.insert(key);
}

// Gradients of weights are added the first time alone.
void Executor::gradient(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const bool repeated = !run_.ran.insert(key).second;
  const Stopwatch watch(clock_,
                        repeated ? run_.result.times.recompute : run_.result.times.backward);
  const tier::TagScope tag(tier::Tag::kWorking);
  const model::GradientNode& node = parts_.graph->gradient(action.layer);
  at::Tensor sum;
  for (const model::GradientNode::Use& use : node.uses) {
    at::Tensor part = in_layer_of(
        use.layer, [&] { return gradient_of(action, use, use.adds_weights && !repeated); });
    if (!node.gives_gradient) continue;
    ensure(part.defined(), "a value that needs a gradient gets one from each layer that reads it");
    sum.defined() ? void(sum.add_(part)) : void(sum = std::move(part));
  }
  if (sum.defined()) run_.values.put_output(key, {std::move(sum)});
}

at::Tensor Executor::gradient_of(const Action& action, const model::GradientNode::Use& use,
                                 bool adds_weights) {
  const GraphShape& graph = *parts_.graph;
  const auto value = [&](int node) { return run_.values.output({node, action.micro_batch}).at(0); };
  const model::Trace& trace = run_.traces.at(use.layer);
  const std::vector<int>& read = graph.inputs(use.layer);
  model::Values inputs(read.size());
  for (std::size_t i = 0; i < read.size(); ++i)
    if (trace.reads_input(i)) inputs[i] = value(read[i]);
  const at::Tensor output = trace.reads_output() ? value(use.layer) : at::Tensor();
  const at::Tensor gradient = use.layer == graph.layers()
                                  ? run_.values.gradient({use.layer, action.micro_batch}).at(0)
                                  : value(graph.gradient_of(use.layer));
  const std::vector<model::Parameter> none;
  return trace.backward({.inputs = inputs, .output = output, .gradient = gradient},
                        static_cast<std::size_t>(use.input),
                        adds_weights ? parts_.stage.layer(use.layer).parameters() : none);
}

}  // namespace trireme::runtime
