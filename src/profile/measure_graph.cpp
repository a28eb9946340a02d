// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/measure_graph.h"

#include "built_layer.h"
#include "cold_caches.h"
#include "layer_cost.h"
#include "made_up.h"
#include "update_time.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/given.h"
#include "trireme/model/graph.h"
#include "trireme/model/taped.h"
#include "trireme/model/traced.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

namespace trireme::profile {
namespace {

using model::GradientNode;
using Mark = device::Marks::Mark;

/// A layer's share in the gradient of one of its inputs.
struct PartCost {
  Seconds time{0};
  Bytes gradient, transient;
};

struct OperatorCost {
  chain::LayerCost held;  ///< its static bytes
  Seconds update{0};
  Seconds time{0}, add{0};  ///< of a forward; of adding two values of its output's size
  Bytes output, transient, kept;
  std::vector<bool> reads_input;
  bool reads_output = false;
  std::map<int, PartCost> parts;  ///< by input
  model::Values value;            ///< its output on the meta device
};

/// By input of the layer, whether its gradient adds those of weights; inputs without gradients and
/// weights are missing.
using Wanted = std::map<int, GradientNode::Use>;

class GraphWalk {
 public:
  GraphWalk(const model::ChainModel& model, const config::JobSpec& job,
            const MeasureOptions& options);
  GraphCosts run(const std::function<void(int number)>& told);

 private:
  const OperatorCost& cost_of(int number, bool& is_new);
  OperatorCost measure_operator(int number);
  model::Values inputs_of(int number);
  Wanted wanted_of(int number) const;
  std::string key_of(int number) const;
  graph::Node gradient_node(const GradientNode& gradient, const std::string& name,
                            const std::map<int, int>& node_of) const;
  const std::vector<int>& reads(int number) const {
    return model_.inputs[static_cast<std::size_t>(number) - 1];
  }
  const model::LayerRecipe& recipe(int number) const {
    return model_.layers[static_cast<std::size_t>(number) - 1];
  }
  const OperatorCost& of_layer(int number) const {
    return *costs_[static_cast<std::size_t>(number) - 1];
  }

  const model::ChainModel& model_;
  const config::JobSpec& job_;
  const MeasureOptions& options_;
  const std::vector<GradientNode> gradients_;
  std::set<int> needs_gradient_;  ///< values
  tier::DeviceMemory& memory_;
  std::shared_ptr<void> scope_;
  std::unique_ptr<device::Marks> marks_;
  at::Generator made_up_ = at::detail::createCPUGenerator();
  at::Generator generator_;
  std::map<std::string, OperatorCost> known_;
  std::vector<const OperatorCost*> costs_;  ///< by layer
  std::vector<model::Values> values_;       ///< on the meta device
};

/// One layer on values of its own.
class Operator {
 public:
  struct Parts {
    model::Layer& layer;
    const model::Values& inputs;
    const model::Context& context;
    model::Precision precision{};
    const Wanted& wanted;
    std::vector<bool> wants_gradient;
  };
  Operator(Parts parts, tier::DeviceMemory& memory) : parts_(std::move(parts)), memory_(memory) {}

  void measure_bytes(OperatorCost& cost);
  void measure_times(OperatorCost& cost, device::Marks& marks, const Sampling& sampling);

 private:
  model::Traced traced() const;
  at::Tensor backward(const model::Traced& traced, const at::Tensor& gradient,
                      const GradientNode::Use& use) const;

  Parts parts_;
  tier::DeviceMemory& memory_;
};

}  // namespace

GraphCosts measure_graph(const model::ChainModel& model, const config::JobSpec& job,
                         const MeasureOptions& options,
                         const std::function<void(int number)>& told) {
  tier::install_cpu_allocator();
  at::set_num_threads(options.threads);
  return GraphWalk(model, job, options).run(told);
}

namespace {

GraphWalk::GraphWalk(const model::ChainModel& model, const config::JobSpec& job,
                     const MeasureOptions& options)
    : model_(model),
      job_(job),
      options_(options),
      gradients_(model::gradient_nodes(model)),
      memory_(options.memory != nullptr ? *options.memory : tier::MemoryAccount::open("profile")),
      scope_(memory_.enter()),
      marks_(options.place.make_marks()),
      generator_(options.place.make_generator()) {
  for (const GradientNode& gradient : gradients_)
    if (gradient.gives_gradient) needs_gradient_.insert(gradient.value);
}

GraphCosts GraphWalk::run(const std::function<void(int number)>& told) {
  GraphCosts costs;
  costs.graph.name = model_.name;
  {
    const model::Values input =
        options_.place.fetch({made_up_input(model_, job_.train.micro_batch.value(), made_up_)});
    costs.graph.nodes.push_back({.name = "input", .inputs = {}, .bytes = held_by(input)});
    values_.push_back(without_values(input));
  }
  for (int number = 1; number <= model_.length(); ++number) {
    if (options_.stop_requested && options_.stop_requested())
      throw Interrupted(
          concat("stopped on request at layer ", number, " (", recipe(number).name, ")"));
    bool is_new = false;
    const OperatorCost& cost = cost_of(number, is_new);
    if (is_new && told) told(number);
    costs_.push_back(&cost);
    values_.push_back(cost.value);
    costs.graph.nodes.push_back({.name = recipe(number).name,
                                 .inputs = reads(number),
                                 .bytes = cost.output,
                                 .transient = cost.transient,
                                 .time = cost.time});
    costs.fixed += cost.held.parameters + cost.held.gradients + cost.held.optimizer;
    costs.kept += cost.kept;
    costs.update += cost.update;
  }
  std::map<int, int> node_of;  // by value, its gradient
  for (const GradientNode& gradient : gradients_) {
    const std::string name = concat(costs.graph.node(gradient.value).name, ".grad");
    node_of[gradient.value] = costs.graph.size();
    costs.graph.nodes.push_back(gradient_node(gradient, name, node_of));
  }
  costs.fixed += of_layer(model_.length()).output;  // the loss's gradient
  return costs;
}

graph::Node GraphWalk::gradient_node(const GradientNode& gradient, const std::string& name,
                                     const std::map<int, int>& node_of) const {
  graph::Node node{.name = name, .inputs = {}, .time = Seconds(0), .is_backward = true};
  std::set<int> inputs;
  bool is_first = true;
  for (const GradientNode::Use& use : gradient.uses) {
    const OperatorCost& cost = of_layer(use.layer);
    if (use.layer < model_.length()) inputs.insert(node_of.at(use.layer));
    if (cost.reads_output) inputs.insert(use.layer);
    for (std::size_t i = 0; i < cost.reads_input.size(); ++i)
      if (cost.reads_input[i]) inputs.insert(reads(use.layer)[i]);
    const PartCost& part = cost.parts.at(use.input);
    if (gradient.gives_gradient) node.bytes = part.gradient;
    *node.time += part.time;
    // A further part is held with the sum of those before until it is added to it.
    node.transient =
        std::max(node.transient, is_first ? part.transient : part.gradient + part.transient);
    if (!std::exchange(is_first, false) && gradient.value > 0)
      *node.time += of_layer(gradient.value).add;
  }
  node.inputs.assign(inputs.begin(), inputs.end());
  return node;
}

const OperatorCost& GraphWalk::cost_of(int number, bool& is_new) {
  const std::string key = recipe(number).kind.empty() ? concat('#', number) : key_of(number);
  const auto found = known_.find(key);
  is_new = found == known_.end();
  return is_new ? known_.emplace(key, measure_operator(number)).first->second : found->second;
}

std::string GraphWalk::key_of(int number) const {
  std::string key = concat(recipe(number).kind, '\n', number == model_.length());
  for (const int input : reads(number))
    key += concat('\n', shape_text(values_[static_cast<std::size_t>(input)]),
                  needs_gradient_.contains(input));
  for (const auto& [input, use] : wanted_of(number)) key += concat('\n', input, use.adds_weights);
  return key;
}

Wanted GraphWalk::wanted_of(int number) const {
  Wanted wanted;
  for (const GradientNode& gradient : gradients_)
    for (const GradientNode::Use& use : gradient.uses)
      if (use.layer == number) wanted.emplace(use.input, use);
  return wanted;
}

model::Values GraphWalk::inputs_of(int number) {
  model::Values inputs;
  for (const int input : reads(number))
    inputs.push_back(values_[static_cast<std::size_t>(input)].at(0));
  make_up_values(inputs, options_.place.device(), generator_);
  return inputs;
}

OperatorCost GraphWalk::measure_operator(int number) {
  OperatorCost cost;
  const model::Values inputs = inputs_of(number);
  BuiltLayer built = build_layer({.model = model_,
                                  .job = job_,
                                  .number = number,
                                  .device = options_.place.device(),
                                  .memory = memory_},
                                 cost.held);
  model::Context context{.generator = generator_, .training = true, .target = {}};
  if (number == model_.length()) {
    context.target = options_.place.fetch(made_up_target(model_, job_, made_up_));
    cost.held.parameters += held_by(context.target);
  }
  std::vector<bool> wants_gradient;
  for (const int input : reads(number)) wants_gradient.push_back(needs_gradient_.contains(input));
  const Wanted wanted = wanted_of(number);
  Operator one({.layer = *built.layer,
                .inputs = inputs,
                .context = context,
                .precision = model::precision_of(job_.train.precision),
                .wanted = wanted,
                .wants_gradient = wants_gradient},
               memory_);
  model::in_layer(number, recipe(number).name, *built.layer, [&] { one.measure_bytes(cost); });
  const Bytes touched =
      model_.length() * std::min(ColdCaches::kMost, cost.held.parameters + cost.output);
  one.measure_times(cost, *marks_,
                    {.least_time = options_.least_time / 2,
                     .least_runs = options_.least_runs,
                     .between =
                         [&] {
                           if (options_.stop_requested && options_.stop_requested())
                             throw Interrupted("stopped on request");
                         },
                     .touched = touched});
  cost.update = measure_update(*built.layer, *built.gradients, job_.train, *marks_, touched);
  return cost;
}

model::Traced Operator::traced() const {
  rewind(parts_.context);
  return model::traced_forward(parts_.layer, parts_.inputs, parts_.context, parts_.precision,
                               parts_.wants_gradient);
}

at::Tensor Operator::backward(const model::Traced& traced, const at::Tensor& gradient,
                              const GradientNode::Use& use) const {
  const std::vector<model::Parameter> none;
  return traced.trace.backward(
      {.inputs = parts_.inputs, .output = traced.output, .gradient = gradient},
      static_cast<std::size_t>(use.input), use.adds_weights ? parts_.layer.parameters() : none);
}

// The first run warms up.
void Operator::measure_bytes(OperatorCost& cost) {
  for (int run = 0; run < 2; ++run) {
    Bytes before = memory_.live();
    memory_.reset_peak();
    const model::Traced traced = this->traced();
    cost.output = held_by({traced.output});
    cost.kept = memory_.live() - before - cost.output;
    cost.transient = std::max(Bytes(0), memory_.peak() - memory_.live());
    for (std::size_t i = 0; i < parts_.inputs.size(); ++i) {
      if (run == 0) cost.reads_input.push_back(traced.trace.reads_input(i));
    }
    cost.reads_output = traced.trace.reads_output();
    const at::Tensor gradient = at::full_like(traced.output, kGradient);
    for (const auto& [input, use] : parts_.wanted) {
      before = memory_.live();
      memory_.reset_peak();
      const at::Tensor result = backward(traced, gradient, use);
      PartCost& part = cost.parts[input];
      part.gradient = result.defined() ? held_by({result}) : Bytes(0);
      part.transient = std::max(Bytes(0), memory_.peak() - before - part.gradient);
    }
    before = memory_.live();
    memory_.reset_peak();
    rewind(parts_.context);
    const model::Values again =
        model::untaped_forward(parts_.layer, parts_.inputs, parts_.context, parts_.precision);
    cost.transient = std::max(cost.transient,
                              memory_.peak() - before - cost.output + buffer_copies(parts_.layer));
    cost.value = without_values({traced.output});
  }
}

void Operator::measure_times(OperatorCost& cost, device::Marks& marks, const Sampling& sampling) {
  using Clock = std::chrono::steady_clock;
  struct Interval {
    Mark begin, end;
  };
  std::vector<Interval> forwards, adds;
  std::map<int, std::vector<Interval>> parts;
  ColdCaches caches(sampling.touched, parts_.inputs.front().device());
  at::Tensor gradient;
  const auto begin = Clock::now();
  marks.begin();
  while (static_cast<int>(forwards.size()) < sampling.least_runs ||
         to_seconds(Clock::now() - begin) < sampling.least_time) {
    sampling.between();
    caches.pass(parts_.inputs);
    Mark from = marks.set();
    const model::Traced traced = this->traced();
    forwards.push_back({from, marks.set()});
    if (!gradient.defined()) gradient = at::empty_like(traced.output).normal_(0, kGradient);
    for (const auto& [input, use] : parts_.wanted) {
      caches.pass({gradient});
      from = marks.set();
      backward(traced, gradient, use);
      parts[input].push_back({from, marks.set()});
    }
    caches.pass({gradient});
    from = marks.set();
    gradient.add_(traced.output, 0);
    adds.push_back({from, marks.set()});
    if (forwards.size() % static_cast<std::size_t>(sampling.least_runs) == 0) marks.settle();
  }
  marks.settle();
  const auto time_of = [&](const std::vector<Interval>& intervals) {
    std::vector<double> seconds;
    for (const Interval& one : intervals)
      seconds.push_back(
          std::chrono::duration<double>(marks.time(one.end) - marks.time(one.begin)).count());
    return Seconds(median(std::move(seconds)));
  };
  cost.time = time_of(forwards);
  cost.add = time_of(adds);
  for (const auto& [input, intervals] : parts) cost.parts[input].time = time_of(intervals);
}

}  // namespace
}  // namespace trireme::profile
