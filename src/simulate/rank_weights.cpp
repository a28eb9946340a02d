// SPDX-License-Identifier: Apache-2.0
#include "rank_weights.h"

#include "trireme/core/text.h"
#include "trireme/program/weights.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace trireme::simulate {

using program::Action;
using program::Op;

namespace {

bool is_of_gradients(Op op) {
  return op == Op::kGradientsIn || op == Op::kGradientsNew || op == Op::kGradientsOut ||
         op == Op::kGradientsRelease || op == Op::kGradientsFree;
}

bool is_in(Op op) {
  return op == Op::kWeightsIn || op == Op::kGradientsIn || op == Op::kGradientsNew;
}

}  // namespace

RankWeights::RankWeights(const Setting& setting, const program::Program& program, int rank) {
  std::vector<chain::OffloadWeights> sizes = setting.streamed;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (program.rank_of_layer[i] != rank) sizes[i] = {};
  const auto is_streamed = [](const chain::OffloadWeights& one) { return one.all() > Bytes(0); };
  if (std::none_of(sizes.begin(), sizes.end(), is_streamed)) return;
  for (const chain::OffloadWeights& size : sizes)
    layers_.push_back({.size = size, .is_streamed = is_streamed(size)});
  window_ = chain::weights_window(sizes, setting.weights_at_once);
  const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
  for (const program::HeldLayer& held : program::held_at_begin(actions)) {
    Layer& layer = layers_[static_cast<std::size_t>(held.layer)];
    const bool gradients = held.gradients != program::HeldLayer::Gradients::kNone;
    layer.weights.is_here = layer.weights.at_begin = held.weights;
    layer.gradients.is_here = layer.gradients.at_begin = gradients;
    held_ += (held.weights ? layer.size.weights : Bytes(0)) +
             (gradients ? layer.size.gradients : Bytes(0));
  }
  for (const Action& action : actions)
    if (action.op == Op::kStep && action.layer > 0) stepped_.push_back(action.layer);
}

std::optional<std::string> RankWeights::apply(const Action& action) {
  if (program::moves_weights(action.op)) return move(action);
  return use(action);
}

std::optional<std::string> RankWeights::move(const Action& action) {
  if (!is_streamed(action.layer))
    return concat("the weights of layer ", action.layer, " stay on the device");
  Layer& layer = layers_[static_cast<std::size_t>(action.layer)];
  const Bytes bytes = size(action);
  if (program::is_release(action.op)) {
    leaving_ -= bytes;
    return std::nullopt;
  }
  const bool gradients = is_of_gradients(action.op), in = is_in(action.op);
  const auto refuse = [&](std::string_view why) {
    return concat("the ", gradients ? "gradients" : "weights", " of layer ", action.layer, " ",
                  why);
  };
  State& state = gradients ? layer.gradients : layer.weights;
  if (std::exchange(state.is_here, in) == in)
    return refuse(in ? "are on the device already" : "are not on the device");
  const bool out = action.op == Op::kWeightsOut || action.op == Op::kGradientsOut;
  if (!in && !out && state.is_needed)
    return refuse("were changed: they are copied out before they are freed");
  state.is_needed = false;
  if (!std::exchange(state.was_moved, true)) state.is_dropped = !in && !out;
  held_ += in ? bytes : Bytes(0) - bytes;
  if (out) leaving_ += bytes;
  if (unused() >= Bytes(0)) return std::nullopt;
  return concat("streamed weights take ", (window_ - unused()).count(),
                " bytes of the device, their window is ", window_.count());
}

std::optional<std::string> RankWeights::use(const Action& action) {
  const bool updates = action.op == Op::kUpdate || action.op == Op::kStep;
  const bool computes = program::uses_weights(action.op) || updates;
  if ((!computes && action.op != Op::kReduceGradients) || !is_streamed(action.layer))
    return std::nullopt;
  Layer& layer = layers_[static_cast<std::size_t>(action.layer)];
  const bool reads_gradients = !program::is_forward(action.op) && layer.size.is_trained;
  const bool lacks_weights = computes && !layer.weights.is_here;
  if (lacks_weights || (reads_gradients && !layer.gradients.is_here))
    return concat("the ", lacks_weights ? "weights" : "gradients", " of layer ", action.layer,
                  " are not on the device");
  if (updates) layer.weights.is_needed = true;
  if (reads_gradients) layer.gradients.is_needed = !updates;
  return std::nullopt;
}

std::optional<std::string> RankWeights::not_as_begun() const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    if (layer.weights.is_needed && layer.weights.is_dropped)
      return concat("the weights of layer ", i,
                    " are changed at the end, but the next run frees them without a copy out");
    const bool weights = layer.weights.is_here != layer.weights.at_begin;
    if (!weights && layer.gradients.is_here == layer.gradients.at_begin) continue;
    const State& state = weights ? layer.weights : layer.gradients;
    return concat("the ", weights ? "weights" : "gradients", " of layer ", i,
                  state.is_here ? " stay on the device" : " are not on the device",
                  ", but the next run begins ", state.at_begin ? "with" : "without", " them");
  }
  return std::nullopt;
}

Bytes RankWeights::size(const Action& action) const {
  const chain::OffloadWeights& size = layers_[static_cast<std::size_t>(action.layer)].size;
  return is_of_gradients(action.op) ? size.gradients : size.weights;
}

}  // namespace trireme::simulate
