// Reads and writes the optimizer's state on whatever tier it is.
// SPDX-License-Identifier: Apache-2.0
#include "update/optimizer.h"

#include "trireme/core/error.h"
#include "trireme/core/visible.h"
#include "trireme/device/place.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <exception>

namespace trireme::runtime {

Optimizer::Access::Access(Optimizer& optimizer) : optimizer_(optimizer) {
  ensure(optimizer.pending().empty(), "an update is complete before its state is accessed");
}

Optimizer::Access::~Access() {
  try {
    if (optimizer_.moved_) optimizer_.moved_->close();
    if (StreamedWeights* const weights = optimizer_.stage_.weights()) weights->close();
  } catch (const std::exception& error) {
    // The next update needs what was lost and will fail; an error that is being thrown matters
    // more.
    std::fprintf(stderr, "trireme: state was lost: %s\n", visible(error.what()).c_str());
  }
}

std::size_t Optimizer::Access::holder(std::size_t i) const {
  const std::vector<StageParameter>& parameters = optimizer_.stage_.parameters();
  if (!parameters[i].shares_value) return i;
  const auto holds = [&](const StageParameter& other) { return other.tie == parameters[i].tie; };
  return static_cast<std::size_t>(std::find_if(parameters.begin(), parameters.end(), holds) -
                                  parameters.begin());
}

bool Optimizer::Access::has(std::size_t i, StateTensor which) const {
  if (which == StateTensor::kValue) return true;
  const StageParameter& parameter = optimizer_.stage_.parameters()[i];
  if (parameter.shares_value || !parameter.is_trained) return false;
  const StateKinds kinds = state_kinds(optimizer_.spec_, parameter);
  return which == StateTensor::kFirst ? kinds.first : kinds.second;
}

bool Optimizer::Access::is_offloaded(std::size_t i, StateTensor which) const {
  if (optimizer_.layout_.offloaded[i].count == 0) return false;
  const StageParameter& parameter = optimizer_.stage_.parameters()[i];
  return which != StateTensor::kValue || state_kinds(optimizer_.spec_, parameter).master;
}

bool Optimizer::Access::is_streamed(std::size_t i, StateTensor which) const {
  const StageParameter& parameter = optimizer_.stage_.parameters()[i];
  const bool is_weight = !parameter.is_trained || !state_kinds(optimizer_.spec_, parameter).master;
  return parameter.is_streamed && which == StateTensor::kValue && is_weight;
}

bool Optimizer::Access::has_others(std::size_t i, StateTensor which) const {
  const StageParameter& parameter = optimizer_.stage_.parameters()[i];
  if (!parameter.is_trained || optimizer_.layout_.rows[i].count == parameter.weight.numel())
    return false;
  return which != StateTensor::kValue || state_kinds(optimizer_.spec_, parameter).master;
}

Row Optimizer::Access::row(std::size_t i, StateTensor which) const {
  const std::size_t of = holder(i);
  if (has_others(of, which)) return optimizer_.layout_.rows[of];
  return {0, optimizer_.stage_.parameters()[of].weight.numel()};
}

at::Tensor Optimizer::Access::read(std::size_t i, StateTensor which) {
  const std::size_t from = holder(i);
  const StageParameter& parameter = optimizer_.stage_.parameters()[from];
  if (is_streamed(from, which)) {
    optimizer_.stage_.weights()->bring(parameter.layer);
    const at::Tensor row =
        device::cpu().landing(parameter.weight.numel(), parameter.weight.scalar_type());
    return row.view(parameter.weight.sizes()).copy_(parameter.weight);
  }
  if (!is_offloaded(from, which)) return held(from, which);
  const Row here = row(from, which);
  const at::Tensor numbers = device::cpu().landing(here.count, at::kFloat);
  for_each_piece(from, which, [&](const at::Tensor& piece, std::int64_t begin) {
    numbers.narrow(0, begin - here.begin, piece.numel()).copy_(piece);
  });
  return has_others(from, which) ? numbers : numbers.view(parameter.weight.sizes());
}

at::Tensor Optimizer::Access::held(std::size_t i, StateTensor which) const {
  const HeldState& state = optimizer_.held_of_[i];
  const bool is_here = optimizer_.layout_.held(i).count > 0;
  switch (which) {
    case StateTensor::kValue:
      if (!has_others(i, which) && !is_offloaded(i, which))
        return optimizer_.stage_.parameters()[i].value;
      return is_here ? state.master : at::empty({0}, at::kFloat);
    case StateTensor::kFirst:
      return is_here ? state.first : at::empty({0}, at::kFloat);
    case StateTensor::kSecond:
      return is_here ? state.second : at::empty({0}, at::kFloat);
  }
  throw LogicError("an unknown state tensor");
}

void Optimizer::Access::change(std::size_t i, StateTensor which,
                               const std::function<void(const at::Tensor&)>& change) {
  const std::size_t to = holder(i);
  const StageParameter& parameter = optimizer_.stage_.parameters()[to];
  if (is_streamed(to, which))
    return optimizer_.stage_.weights()->change(parameter.layer, [&] { change(parameter.value); });
  const bool are_all_here = !has_others(to, which);
  if (!is_offloaded(to, which) && are_all_here) return change(held(to, which));
  const at::NoGradGuard no_grad;
  const at::Tensor all = device::cpu().landing(parameter.weight.numel(), at::kFloat);
  change(all.view(parameter.weight.sizes()));
  for_each_piece(to, which, [&](const at::Tensor& piece, std::int64_t begin) {
    at::Tensor into = piece;
    into.copy_(all.narrow(0, begin, piece.numel()));
  });
  // Other replicas hold the masters of the rest, which is rounded from them here once.
  if (which == StateTensor::kValue && !are_all_here)
    change_weight(parameter, all.view(parameter.weight.sizes()));
}

void Optimizer::Access::change_weight(const StageParameter& parameter, const at::Tensor& value) {
  const auto round = [&] { parameter.weight.detach().copy_(value); };
  if (!parameter.is_streamed) return round();
  optimizer_.stage_.weights()->change(parameter.layer, round);
}

void Optimizer::Access::for_each_piece(
    std::size_t i, StateTensor which,
    const std::function<void(const at::Tensor&, std::int64_t)>& visit) {
  const at::NoGradGuard no_grad;
  const Row on_device = optimizer_.layout_.held(i);
  if (on_device.count > 0) visit(held(i, which).view(-1), on_device.begin);
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
      visit(here.narrow(0, optimizer_.offset(slice, which), slice.count), slice.begin);
    }
  }
}

}  // namespace trireme::runtime
