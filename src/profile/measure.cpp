// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/measure.h"

#include "built_layer.h"
#include "changed_buffers.h"
#include "cold_caches.h"
#include "layer_cost.h"
#include "made_up.h"
#include "other_inputs.h"
#include "static_bytes.h"
#include "update_time.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/given.h"
#include "trireme/model/gradient_sums.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <map>
#include <optional>

namespace trireme::profile {
namespace {

/// A measured layer, reused for equal ones.
struct Known {
  chain::LayerCost cost;
  model::Values output;  ///< on the meta device: sizes without values
};

/// Walks along the chain with the output of the previous layer.
class Walk {
 public:
  Walk(const model::ChainModel& model, const config::JobSpec& job, const MeasureOptions& options);

  Bytes input_bytes() const { return held_by(x_); }
  /// Layers in order, from 1.
  chain::LayerCost next();

 private:
  chain::LayerCost measure_layer();
  /// Raises the bytes of a layer whose tensors are larger for other inputs of the same sizes.
  void leave_room(const Subject& subject, chain::LayerCost& cost) const;
  void note_changed_buffers(const Subject& subject, const chain::LayerCost& cost) const;
  void require_no_stop() const;
  const model::LayerRecipe& recipe() const {
    return model_.layers[static_cast<std::size_t>(number_ - 1)];
  }
  bool is_last() const { return number_ == model_.length(); }
  std::string key() const;

  const model::ChainModel& model_;
  const config::JobSpec& job_;
  const MeasureOptions& options_;
  const model::Precision precision_;
  tier::DeviceMemory& memory_;
  std::shared_ptr<void> scope_;
  std::unique_ptr<device::Marks> marks_;
  at::Generator made_up_ = at::detail::createCPUGenerator();  ///< for inputs and targets
  at::Generator generator_;
  std::map<std::string, Known> known_;
  int number_ = 0;
  int turn_ = 0;     ///< layers measured so far
  model::Values x_;  ///< input of the next layer
};

}  // namespace

chain::Chain measure(const model::ChainModel& model, const config::JobSpec& job,
                     const MeasureOptions& options) {
  tier::install_cpu_allocator();
  at::set_num_threads(options.threads);
  Walk walk(model, job, options);
  chain::Chain chain{.name = model.name,
                     .input = walk.input_bytes(),
                     .layers = {},
                     .state_line = state_line(job.train)};
  for (int i = 1; i <= model.length(); ++i) chain.layers.push_back(walk.next());
  return chain;
}

namespace {

Walk::Walk(const model::ChainModel& model, const config::JobSpec& job,
           const MeasureOptions& options)
    : model_(model),
      job_(job),
      options_(options),
      precision_(model::precision_of(job.train.precision)),
      memory_(options.memory != nullptr ? *options.memory : tier::MemoryAccount::open("profile")),
      scope_(memory_.enter()),
      marks_(options.place.make_marks()),
      generator_(options.place.make_generator()) {
  x_ = options.place.fetch({made_up_input(model, job.train.micro_batch.value(), made_up_)});
}

chain::LayerCost Walk::next() {
  ++number_;
  require_no_stop();
  const std::string of_input = shape_text(x_);
  const std::string equal = recipe().kind.empty() ? "" : key();
  const auto known = known_.find(equal);
  // An equal layer's output stands in for this one's: x_ itself if it has that shape, else a meta
  // tensor to be filled when needed.
  const bool skips = known != known_.end();
  chain::LayerCost cost;
  if (skips) {
    cost = known->second.cost;
    cost.name = recipe().name;
    if (shape_text(known->second.output) != of_input) x_ = known->second.output;
  } else {
    make_up_values(x_, options_.place.device(), generator_);
    cost = measure_layer();
    if (!equal.empty()) known_[equal] = {cost, without_values(x_)};
  }
  if (options_.progress) options_.progress(number_, cost, !skips);
  return cost;
}

chain::LayerCost Walk::measure_layer() {
  chain::LayerCost cost{.name = recipe().name};
  BuiltLayer held = build_layer({.model = model_,
                                 .job = job_,
                                 .number = number_,
                                 .device = options_.place.device(),
                                 .memory = memory_},
                                cost);
  model::Context context{.generator = generator_,
                         .training = true,
                         .target = {},
                         .documents = made_up_documents(model_, job_),
                         .lean_tapes = job_.memory.tapes == "lean"};
  if (is_last()) {
    context.target = options_.place.fetch(made_up_target(model_, job_, made_up_));
    // The target is held from the start of a micro-batch's forwards, long before the tape.
    cost.parameters += held_by(context.target);
  }
  const Subject subject{.layer = *held.layer,
                        .gradients = *held.gradients,
                        .input = x_,
                        .context = context,
                        .precision = precision_,
                        .input_gradient = model::input_gradient(model_, number_)};
  model::Values output = model::in_layer(number_, cost.name, *held.layer,
                                         [&] { return measure_bytes(subject, memory_, cost); });
  if (recipe().may_vary) {
    leave_room(subject, cost);
    note_changed_buffers(subject, cost);
  }
  const Bytes touched =
      model_.length() * std::min(ColdCaches::kMost, cost.parameters + cost.gradients + cost.tape);
  if (turn_++ % options_.shares == options_.share) {
    measure_times(subject, *marks_,
                  {.least_time = options_.least_time,
                   .least_runs = options_.least_runs,
                   .between = [this] { require_no_stop(); },
                   .touched = touched},
                  cost);
    if (options_.meter != nullptr)
      measure_energy(subject, *marks_, *options_.meter,
                     {.least_time = options_.metered_time,
                      .between = [this] { require_no_stop(); },
                      .touched = touched},
                     cost);
    cost.update = measure_update(*held.layer, *held.gradients, job_.train, *marks_, touched);
  }
  x_ = std::move(output);
  return cost;
}

void Walk::leave_room(const Subject& subject, chain::LayerCost& cost) const {
  const Bytes before = cost.tape;
  if (!raise_to_others(subject, memory_, cost) || !options_.note) return;
  options_.note(concat(
      "layer ", number_, " (", cost.name,
      ") has tensors whose sizes depend on the values of its input: its tape takes ",
      to_text(before), " to ", to_text(cost.tape),
      " per micro-batch, and may take more for other values. Predicted peaks are valid only for "
      "layers whose sizes do not depend on values (docs/models.md)"));
}

void Walk::note_changed_buffers(const Subject& subject, const chain::LayerCost& cost) const {
  const bool gives_it = model::in_layer(number_, cost.name, subject.layer, [&] {
    return options_.note && gives_what_it_has_changed(subject);
  });
  if (!gives_it) return;
  options_.note(concat(
      "layer ", number_, " (", cost.name,
      ") has an output that depends, in training, on a buffer that its forward changes: when it is "
      "recomputed, or micro-batches overlap, it sees what later micro-batches have left there, so "
      "that another plan gives other numbers. Use such a buffer only outside of training "
      "(docs/models.md)"));
}

void Walk::require_no_stop() const {
  if (options_.stop_requested && options_.stop_requested()) {
    throw Interrupted(concat("stopped on request at layer ", number_, " (", recipe().name, ")"));
  }
}

std::string Walk::key() const {
  // Costs within a kind also depend on whether an input gradient is needed and on whether there is
  // a target.
  const auto wanted = static_cast<int>(model::input_gradient(model_, number_));
  return concat(recipe().kind, '\n', wanted, is_last(), '\n', shape_text(x_));
}

}  // namespace
}  // namespace trireme::profile
