// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/optimizer.h"

#include "trireme/core/error.h"
#include "trireme/device/place.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <numbers>
#include <utility>

namespace trireme::runtime {
namespace {

/// With bytes of its own, which count for this thread.
at::Tensor copied_to(c10::Device device, const at::Tensor& value) {
  return value.device() == device ? value.clone() : value.to(device);
}

}  // namespace

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

Optimizer::Optimizer(const config::OptimizerSpec& spec, Stage& stage)
    : Optimizer(spec, stage, lay_out_state(spec, stage.parameters(), Bytes(0), Bytes(0)), nullptr) {
}

Optimizer::Optimizer(const config::OptimizerSpec& spec, Stage& stage, StateLayout layout,
                     std::unique_ptr<tier::ValueCopies> copies)
    : spec_(spec), stage_(stage), layout_(std::move(layout)), held_of_(stage.parameters().size()) {
  ensure(layout_.away.size() == held_of_.size(), "the layout is of this stage");
  const tier::TagScope tag(tier::Tag::kOptimizer);
  for (const StageParameter& parameter : stage.parameters())
    if (parameter.is_streamed && parameter.is_trained) streamed_[parameter.layer];
  for (std::size_t i = 0; i < held_of_.size(); ++i) hold(i);
  if (layout_.parts.empty()) return;
  moved_ = std::make_unique<MovedState>(std::move(copies), stage.device());
  for (const StatePart& part : layout_.parts) send_away(part);
  moved_->close();
}

void Optimizer::hold(std::size_t i) {
  const StageParameter& parameter = stage_.parameters()[i];
  if (parameter.shares_value || !parameter.is_trained) return;
  const Row row = layout_.held(i);
  const bool is_whole = row.count == parameter.weight.numel();
  const bool has_master = state_kinds(spec_, parameter).master;
  const auto of_row = [&](const at::Tensor& whole) {
    return is_whole ? whole : whole.view(-1).narrow(0, row.begin, row.count);
  };
  const at::Tensor weight = of_row(parameter.weight.detach());
  at::Tensor master = has_master ? of_row(parameter.value) : weight;
  // A part's master has bytes of its own, so that the whole one can go.
  if (has_master && (stage_.masters() == Stage::Masters::kHost || !is_whole))
    master = copied_to(stage_.device(), master);
  // What is away of it is not there yet.
  if (has_master && layout_.away[i].count == 0)
    stage_.put_master(i, is_whole ? master : at::Tensor());
  if (row.count == 0) return;
  const model::Updated updated = model::with_moments(spec_, {.master = master,
                                                             .weight = weight,
                                                             .gradient = of_row(parameter.gradient),
                                                             .first = {},
                                                             .second = {}});
  held_of_[i] = {is_whole ? at::Tensor() : master, updated.first, updated.second};
  add(parameter.is_streamed ? streamed_.at(parameter.layer) : held_, i, updated);
}

void Optimizer::send_away(const StatePart& part) {
  const at::NoGradGuard no_grad;
  const at::Tensor here = moved_->add(part.numbers);
  Groups& groups = away_.emplace_back();
  for (const StateSlice& slice : part.slices) {
    const StageParameter& parameter = stage_.parameters()[slice.parameter];
    const StateKinds kinds = state_kinds(spec_, parameter);
    const auto of_part = [&](bool is_there, Part kind) {
      return is_there ? here.narrow(0, offset(slice, kind), slice.count) : at::Tensor();
    };
    const auto of_row = [&](const at::Tensor& whole) {
      return whole.view(-1).narrow(0, slice.begin, slice.count);
    };
    const at::Tensor weight = of_row(parameter.weight.detach());
    const at::Tensor master = kinds.master ? of_part(true, Part::kValue) : weight;
    if (kinds.master) master.copy_(of_row(parameter.value));
    add(groups, slice.parameter,
        {.master = master,
         .weight = weight,
         .gradient = of_row(parameter.gradient),
         .first = of_part(kinds.first, Part::kFirst),
         .second = of_part(kinds.second, Part::kSecond)});
    const bool is_last = slice.begin + slice.count == layout_.rows[slice.parameter].end();
    if (kinds.master && is_last) stage_.put_master(slice.parameter, {});
  }
}

std::int64_t Optimizer::offset(const StateSlice& slice, Part part) const {
  const StateKinds kinds = state_kinds(spec_, stage_.parameters()[slice.parameter]);
  switch (part) {
    case Part::kValue:
      return slice.offset;
    case Part::kFirst:
      return slice.offset + slice.stride() * int{kinds.master};
    case Part::kSecond:
      return slice.offset + slice.stride() * (int{kinds.master} + int{kinds.first});
  }
  throw LogicError("a part that there is not");
}

void Optimizer::add(Groups& groups, std::size_t i, const model::Updated& updated) const {
  const bool decays = stage_.parameters()[i].weight.dim() >= 2;
  std::optional<model::UpdateGroup>& group = groups.by_decay[decays ? 0 : 1];
  if (!group) group = model::UpdateGroup{.decay = decays ? spec_.weight_decay : 0};
  group->add(updated);
}

void Optimizer::step(double rate, const at::Tensor& divisor, const Way& way) {
  ++steps_;
  for_each(way, [&](Groups& groups) { update(groups, rate, divisor); });
}

void Optimizer::for_each(const Way& way, const std::function<void(Groups&)>& use) {
  use(held_);
  auto next = streamed_.begin();
  std::optional<int> reached;
  const auto leave = [&] {
    if (reached && way.updated) way.updated(*reached);
    reached.reset();
  };
  const auto reach_all = [&](int last) {
    for (; next != streamed_.end() && next->first <= last; ++next) {
      leave();
      reached = next->first;
      if (way.reach) way.reach(*reached);
      use(next->second);
    }
  };
  const auto use_part = [&](std::size_t i) {
    reach_all(layout_.parts[i].streamed_layer);
    use(away_[i]);
  };
  if (moved_) moved_->for_each(use_part);
  reach_all(std::numeric_limits<int>::max());
  leave();
  if (way.updated) way.updated(0);
}

void Optimizer::update(Groups& groups, double rate, const at::Tensor& divisor) {
  for (std::optional<model::UpdateGroup>& group : groups.by_decay)
    if (group) model::update(*group, spec_, rate, steps_, divisor);
}

void Optimizer::resume_after(std::int64_t steps) {
  const at::NoGradGuard no_grad;
  steps_ = steps;
  // A layer's weights are here until the next layer's are.
  const auto reach = [&](int layer) {
    if (has_masters(layer)) stage_.weights()->change(layer, [] {});
  };
  for_each({.reach = reach, .updated = {}}, round_weights);
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

Bytes Optimizer::away_bytes() const {
  Bytes bytes;
  for (std::size_t i = 0; i < layout_.away.size(); ++i) {
    const StageParameter& parameter = stage_.parameters()[i];
    bytes += Bytes(layout_.away[i].count * std::int64_t{sizeof(float)}) *
             state_kinds(spec_, parameter).count();
  }
  return bytes;
}

Optimizer::Access::~Access() {
  try {
    if (optimizer_.moved_) optimizer_.moved_->close();
    if (StreamedWeights* const weights = optimizer_.stage_.weights()) weights->close();
  } catch (const std::exception& error) {
    // The next update needs what is lost and says so; an error that is on its way matters more.
    std::fprintf(stderr, "trireme: state was lost: %s\n", error.what());
  }
}

std::size_t Optimizer::Access::holder(std::size_t i) const {
  const std::vector<StageParameter>& parameters = optimizer_.stage_.parameters();
  if (!parameters[i].shares_value) return i;
  const auto holds = [&](const StageParameter& other) { return other.tie == parameters[i].tie; };
  return static_cast<std::size_t>(std::find_if(parameters.begin(), parameters.end(), holds) -
                                  parameters.begin());
}

bool Optimizer::Access::has(std::size_t i, Part part) const {
  if (part == Part::kValue) return true;
  const StageParameter& parameter = optimizer_.stage_.parameters()[i];
  if (parameter.shares_value || !parameter.is_trained) return false;
  const StateKinds kinds = state_kinds(optimizer_.spec_, parameter);
  return part == Part::kFirst ? kinds.first : kinds.second;
}

bool Optimizer::Access::is_away(std::size_t i, Part part) const {
  if (optimizer_.layout_.away[i].count == 0) return false;
  const StageParameter& parameter = optimizer_.stage_.parameters()[i];
  return part != Part::kValue || state_kinds(optimizer_.spec_, parameter).master;
}

bool Optimizer::Access::is_streamed(std::size_t i, Part part) const {
  const StageParameter& parameter = optimizer_.stage_.parameters()[i];
  const bool is_weight = !parameter.is_trained || !state_kinds(optimizer_.spec_, parameter).master;
  return parameter.is_streamed && part == Part::kValue && is_weight;
}

bool Optimizer::Access::has_others(std::size_t i, Part part) const {
  const StageParameter& parameter = optimizer_.stage_.parameters()[i];
  if (!parameter.is_trained || optimizer_.layout_.rows[i].count == parameter.weight.numel())
    return false;
  return part != Part::kValue || state_kinds(optimizer_.spec_, parameter).master;
}

Row Optimizer::Access::row(std::size_t i, Part part) const {
  const std::size_t of = holder(i);
  if (has_others(of, part)) return optimizer_.layout_.rows[of];
  return {0, optimizer_.stage_.parameters()[of].weight.numel()};
}

at::Tensor Optimizer::Access::read(std::size_t i, Part part) {
  const std::size_t from = holder(i);
  const StageParameter& parameter = optimizer_.stage_.parameters()[from];
  if (is_streamed(from, part)) {
    optimizer_.stage_.weights()->bring(parameter.layer);
    const at::Tensor row =
        device::cpu().landing(parameter.weight.numel(), parameter.weight.scalar_type());
    return row.view(parameter.weight.sizes()).copy_(parameter.weight);
  }
  if (!is_away(from, part)) return held(from, part);
  const Row here = row(from, part);
  const at::Tensor numbers = device::cpu().landing(here.count, at::kFloat);
  for_each_piece(from, part, [&](const at::Tensor& piece, std::int64_t begin) {
    numbers.narrow(0, begin - here.begin, piece.numel()).copy_(piece);
  });
  return has_others(from, part) ? numbers : numbers.view(parameter.weight.sizes());
}

at::Tensor Optimizer::Access::held(std::size_t i, Part part) const {
  const State& state = optimizer_.held_of_[i];
  const bool is_here = optimizer_.layout_.held(i).count > 0;
  switch (part) {
    case Part::kValue:
      if (!has_others(i, part) && !is_away(i, part)) return optimizer_.stage_.parameters()[i].value;
      return is_here ? state.master : at::empty({0}, at::kFloat);
    case Part::kFirst:
      return is_here ? state.first : at::empty({0}, at::kFloat);
    case Part::kSecond:
      return is_here ? state.second : at::empty({0}, at::kFloat);
  }
  throw LogicError("a part that there is not");
}

void Optimizer::Access::change(std::size_t i, Part part,
                               const std::function<void(const at::Tensor&)>& change) {
  const std::size_t to = holder(i);
  const StageParameter& parameter = optimizer_.stage_.parameters()[to];
  if (is_streamed(to, part))
    return optimizer_.stage_.weights()->change(parameter.layer, [&] { change(parameter.value); });
  const bool are_all_here = !has_others(to, part);
  if (!is_away(to, part) && are_all_here) return change(held(to, part));
  const at::NoGradGuard no_grad;
  const at::Tensor all = device::cpu().landing(parameter.weight.numel(), at::kFloat);
  change(all.view(parameter.weight.sizes()));
  for_each_piece(to, part, [&](const at::Tensor& piece, std::int64_t begin) {
    at::Tensor into = piece;
    into.copy_(all.narrow(0, begin, piece.numel()));
  });
  // Others hold the masters of the rest, which is rounded from them here once.
  if (part == Part::kValue && !are_all_here)
    change_weight(parameter, all.view(parameter.weight.sizes()));
}

void Optimizer::Access::change_weight(const StageParameter& parameter, const at::Tensor& value) {
  const auto round = [&] { parameter.weight.detach().copy_(value); };
  if (!parameter.is_streamed) return round();
  optimizer_.stage_.weights()->change(parameter.layer, round);
}

void Optimizer::Access::for_each_piece(
    std::size_t i, Part part, const std::function<void(const at::Tensor&, std::int64_t)>& visit) {
  const at::NoGradGuard no_grad;
  const Row on_device = optimizer_.layout_.held(i);
  if (on_device.count > 0) visit(held(i, part).view(-1), on_device.begin);
  const std::vector<StatePart>& parts = optimizer_.layout_.parts;
  const auto first = std::partition_point(parts.begin(), parts.end(), [&](const StatePart& one) {
    return one.slices.back().parameter < i;
  });
  for (auto part_of = first; part_of != parts.end(); ++part_of) {
    if (part_of->slices.front().parameter > i) return;
    for (const StateSlice& slice : part_of->slices) {
      if (slice.parameter != i) continue;
      const at::Tensor here =
          optimizer_.moved_->part(static_cast<std::size_t>(part_of - parts.begin()));
      visit(here.narrow(0, optimizer_.offset(slice, part), slice.count), slice.begin);
    }
  }
}

}  // namespace trireme::runtime
