// SPDX-License-Identifier: Apache-2.0
#include "update/optimizer.h"

#include "update/drawn_masters.h"

#include "trireme/core/error.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace trireme::runtime {

double learning_rate(const config::TrainSpec& spec, std::int64_t step) {
  const double full = spec.optimizer.learning_rate;
  const int warmup = spec.schedule.warmup_steps;
  if (step < warmup) return full * static_cast<double>(step + 1) / warmup;
  if (spec.schedule.kind == "constant") return full;
  const double span = std::max(1, spec.steps - 1 - warmup);
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / span);
  const double least = spec.schedule.least_fraction;
  return full * (least + (1 - least) * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

/// Fills in masters in the order of parameters, so that a stage that keeps none draws each layer
/// once and never holds the masters of all.
class Optimizer::Filling {
 public:
  explicit Filling(Optimizer& optimizer)
      : optimizer_(optimizer), drawn_(optimizer.stage_, layers_of(optimizer)) {}

  /// Fills `into` with the slice's masters. Slices come in the order of their parameters.
  void fill(const StateSlice& slice, const at::Tensor& into) {
    fill_held(slice.parameter + 1);
    copy(slice.parameter, {slice.begin, slice.count}, into);
  }
  /// Fills in what is left.
  void end() { fill_held(optimizer_.held_of_.size()); }

 private:
  static std::vector<int> layers_of(const Optimizer& optimizer) {
    std::vector<int> layers;
    for (std::size_t i = 0; i < optimizer.held_of_.size(); ++i) {
      const int layer = optimizer.stage_.parameters()[i].layer;
      const bool is_known = !layers.empty() && layers.back() == layer;
      if (!is_known && optimizer.has_master(i) && optimizer.layout_.rows[i].count > 0)
        layers.push_back(layer);
    }
    return layers;
  }
  /// Fills in what stays on the device of parameters before `end`.
  void fill_held(std::size_t end) {
    if (optimizer_.stage_.masters() == Stage::Masters::kDevice) return;
    for (; next_ < end; ++next_) {
      const Row row = optimizer_.layout_.held(next_);
      if (!optimizer_.has_master(next_) || row.count == 0) continue;
      const at::Tensor& part = optimizer_.held_of_[next_].master;
      copy(next_, row, part.defined() ? part : optimizer_.stage_.parameters()[next_].value);
    }
  }
  void copy(std::size_t i, const Row& row, at::Tensor into) {
    const at::NoGradGuard no_grad;
    const at::Tensor whole = drawn_.of(optimizer_.stage_.parameters()[i]);
    into.copy_(row.count == whole.numel() && into.sizes() == whole.sizes()
                   ? whole
                   : whole.view(-1).narrow(0, row.begin, row.count));
  }

  Optimizer& optimizer_;
  DrawnMasters drawn_;
  std::size_t next_ = 0;  ///< the first parameter whose master is not filled in
};

Optimizer::Optimizer(const config::OptimizerSpec& spec, Stage& stage)
    : Optimizer(spec, stage, lay_out_state(spec, stage.parameters(), Bytes(0), Bytes(0)), nullptr) {
}

Optimizer::Optimizer(const config::OptimizerSpec& spec, Stage& stage, StateLayout layout,
                     std::unique_ptr<tier::ValueCopies> copies)
    : spec_(spec), stage_(stage), layout_(std::move(layout)), held_of_(stage.parameters().size()) {
  ensure(layout_.offloaded.size() == held_of_.size(), "the layout is of this stage");
  const tier::TagScope tag(tier::Tag::kOptimizer);
  for (const StageParameter& parameter : stage.parameters())
    if (parameter.is_streamed && parameter.is_trained) streamed_[parameter.layer];
  for (std::size_t i = 0; i < held_of_.size(); ++i) hold(i);
  Filling filling(*this);
  if (!layout_.parts.empty())
    moved_ = std::make_unique<MovedState>(std::move(copies), stage.device());
  for (std::size_t i = 0; i < layout_.parts.size(); ++i) {
    offload(layout_.parts[i], filling);
    parts_of_[layout_.parts[i].streamed_layer].push_back(i);
  }
  filling.end();
  if (moved_) moved_->close();
}

bool Optimizer::has_master(std::size_t i) const {
  const StageParameter& parameter = stage_.parameters()[i];
  return parameter.is_trained && !parameter.shares_value && state_kinds(spec_, parameter).master;
}

void Optimizer::hold(std::size_t i) {
  const StageParameter& parameter = stage_.parameters()[i];
  if (parameter.shares_value || !parameter.is_trained) return;
  const Row row = layout_.held(i);
  const bool is_whole = row.count == parameter.weight.numel();
  const auto of_row = [&](const at::Tensor& whole) {
    return is_whole ? whole : whole.view(-1).narrow(0, row.begin, row.count);
  };
  const at::Tensor weight = of_row(parameter.weight.detach());
  at::Tensor master = weight;
  if (has_master(i)) {
    // The master of a part of a parameter has its own bytes, so that the whole one can be freed;
    // masters that the stage does not keep are filled in later.
    const bool is_kept = parameter.value.defined();
    master = is_kept && is_whole ? parameter.value : at::empty_like(weight, at::kFloat);
    if (is_kept && !is_whole) master.copy_(of_row(parameter.value));
    // Offloaded state is not there yet.
    if (layout_.offloaded[i].count == 0) stage_.put_master(i, is_whole ? master : at::Tensor());
  }
  if (row.count == 0) return;
  const model::Updated updated = model::with_moments(spec_, {.master = master,
                                                             .weight = weight,
                                                             .gradient = of_row(parameter.gradient),
                                                             .first = {},
                                                             .second = {}});
  held_of_[i] = {is_whole ? at::Tensor() : master, updated.first, updated.second};
  add(parameter.is_streamed ? streamed_.at(parameter.layer) : held_, i, updated);
}

void Optimizer::offload(const StatePart& part, Filling& filling) {
  const at::NoGradGuard no_grad;
  const at::Tensor here = moved_->add(part.numbers);
  Groups& groups = offloaded_.emplace_back();
  for (const StateSlice& slice : part.slices) {
    const StageParameter& parameter = stage_.parameters()[slice.parameter];
    const StateKinds kinds = state_kinds(spec_, parameter);
    const auto of_part = [&](bool is_there, StateTensor which) {
      return is_there ? here.narrow(0, offset(slice, which), slice.count) : at::Tensor();
    };
    const auto of_row = [&](const at::Tensor& whole) {
      return whole.view(-1).narrow(0, slice.begin, slice.count);
    };
    const at::Tensor weight = of_row(parameter.weight.detach());
    const at::Tensor master = kinds.master ? of_part(true, StateTensor::kValue) : weight;
    if (kinds.master) filling.fill(slice, master);
    add(groups, slice.parameter,
        {.master = master,
         .weight = weight,
         .gradient = of_row(parameter.gradient),
         .first = of_part(kinds.first, StateTensor::kFirst),
         .second = of_part(kinds.second, StateTensor::kSecond)});
    const bool is_last = slice.begin + slice.count == layout_.rows[slice.parameter].end();
    if (kinds.master && is_last) stage_.put_master(slice.parameter, {});
  }
}

std::int64_t Optimizer::offset(const StateSlice& slice, StateTensor which) const {
  const StateKinds kinds = state_kinds(spec_, stage_.parameters()[slice.parameter]);
  switch (which) {
    case StateTensor::kValue:
      return slice.offset;
    case StateTensor::kFirst:
      return slice.offset + slice.count * int{kinds.master};
    case StateTensor::kSecond:
      return slice.offset + slice.count * (int{kinds.master} + int{kinds.first});
  }
  throw LogicError("an unknown state tensor");
}

void Optimizer::add(Groups& groups, std::size_t i, const model::Updated& updated) const {
  const bool decays = stage_.parameters()[i].weight.dim() >= 2;
  std::optional<model::UpdateGroup>& group = groups.by_decay[decays ? 0 : 1];
  if (!group) group = model::UpdateGroup{.decay = decays ? spec_.weight_decay : 0};
  group->add(updated);
}

void Optimizer::announce(const program::LayerUpdates& updates, double rate) {
  own_ = updates;
  if (own_.place != program::UpdatePlace::kInBackward) return;
  ++steps_;
  rate_ = rate;
  divisor_.reset();
}

std::vector<std::size_t> Optimizer::parts_of(const std::vector<int>& layers) const {
  std::vector<std::size_t> parts;
  for (const int layer : layers)
    if (const auto found = parts_of_.find(layer); found != parts_of_.end())
      parts.insert(parts.end(), found->second.begin(), found->second.end());
  return parts;
}

void Optimizer::bring_state() {
  if (!moved_ || (own_.place == program::UpdatePlace::kInForward && pending_.empty())) return;
  std::vector<int> layers;
  for (const auto& [layer, parts] : own_.layers) layers.push_back(layer);
  moved_->begin(parts_of(layers), {.size = {}, .at_once = layout_.parts_at_once});
}

void Optimizer::update(int layer, int part, int parts, const Waits& waits) {
  ensure(own_.place == program::UpdatePlace::kInBackward || pending_.contains(layer),
         "a layer is updated once");
  if (const auto found = parts_of_.find(layer); found != parts_of_.end()) {
    const auto [first, end] =
        program::share_of(part, parts, static_cast<int>(found->second.size()));
    for (int k = first; k < end; ++k)
      moved_->use_next([&](std::size_t i) { update(offloaded_[i]); }, waits);
  }
  if (part + 1 < parts) return;
  update(streamed_.at(layer));
  pending_.erase(layer);
}

void Optimizer::await_state() {
  if (moved_) moved_->end();
}

void Optimizer::step(double rate, const at::Tensor& divisor, const Waits& waits) {
  ensure(pending_.empty(), "the update before this one is complete");
  if (own_.place != program::UpdatePlace::kInBackward) ++steps_;
  rate_ = rate;
  divisor_ = divisor;
  std::set<int> own;
  for (const auto& [layer, parts] : own_.layers) own.insert(layer);
  begin_pass(own);
  if (own_.place == program::UpdatePlace::kInForward) pending_ = std::move(own);
  step_layer(0, waits);
}

void Optimizer::step_layer(int layer, const Waits& waits) {
  pass(
      layer, [&](Groups& groups) { update(groups); }, waits);
  if (left_.empty() && own_.place != program::UpdatePlace::kInForward) divisor_.reset();
}

void Optimizer::begin_pass(const std::set<int>& but) {
  ensure(left_.empty(), "every layer of the update before has had its turn");
  left_ = {0};
  for (const auto& [layer, groups] : streamed_)
    if (!but.contains(layer)) left_.insert(layer);
}

void Optimizer::pass(int layer, const std::function<void(Groups&)>& use, const Waits& waits) {
  ensure(!left_.empty() && *left_.begin() == layer, "layers are updated in the program's order");
  use(layer == 0 ? held_ : streamed_.at(layer));
  if (moved_ && layer == 0) moved_->begin(parts_of({left_.begin(), left_.end()}));
  left_.erase(left_.begin());
  if (!moved_) return;
  for (std::size_t k = parts_of({layer}).size(); k > 0; --k)
    moved_->use_next([&](std::size_t part) { use(offloaded_[part]); }, waits);
  if (moved_->are_all_used()) moved_->end(waits);
}

void Optimizer::update(Groups& groups) {
  for (std::optional<model::UpdateGroup>& group : groups.by_decay)
    if (group) model::update(*group, spec_, rate_, steps_, divisor_);
}

void Optimizer::resume_after(std::int64_t steps) {
  const at::NoGradGuard no_grad;
  steps_ = steps;
  begin_pass({});
  for (const int layer : std::set<int>(left_)) {
    // A layer's weights are on the device until the next layer's are.
    if (layer > 0 && has_masters(layer)) stage_.weights()->change(layer, [] {});
    pass(layer, round_weights);
  }
  if (StreamedWeights* const weights = stage_.weights()) weights->close();
}

bool Optimizer::has_masters(int layer) const {
  const std::vector<StageParameter>& all = stage_.parameters();
  return std::any_of(all.begin(), all.end(), [&](const StageParameter& one) {
    return one.layer == layer && one.is_trained && state_kinds(spec_, one).master;
  });
}

void Optimizer::round_weights(Groups& groups) {
  for (std::optional<model::UpdateGroup>& group : groups.by_decay) {
    if (!group) continue;
    for (std::size_t i = 0; i < group->masters.size(); ++i)
      group->weights[i].copy_(group->masters[i]);
  }
}

Bytes Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  const auto add_up = [&](const Groups& groups) {
    for (const std::optional<model::UpdateGroup>& group : groups.by_decay) {
      if (!group) continue;
      for (const auto* tensors : {&group->masters, &group->first_moments, &group->second_moments})
        for (const at::Tensor& tensor : *tensors)
          bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
  };
  add_up(held_);
  for (const auto& [layer, groups] : streamed_) add_up(groups);
  return Bytes(bytes);
}

Bytes Optimizer::offloaded_bytes() const {
  Bytes bytes;
  for (std::size_t i = 0; i < layout_.offloaded.size(); ++i) {
    const StageParameter& parameter = stage_.parameters()[i];
    bytes += Bytes(layout_.offloaded[i].count * std::int64_t{sizeof(float)}) *
             state_kinds(spec_, parameter).count();
  }
  return bytes;
}

MovedState::Moved Optimizer::take_moved() {
  return moved_ ? moved_->take_moved() : MovedState::Moved{};
}

}  // namespace trireme::runtime
