// Static checks of a program.
// SPDX-License-Identifier: Apache-2.0
#include "shape.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/simulate/channels.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace trireme::simulate {

using program::Action;
using program::Op;
using program::Program;

namespace {

std::optional<std::string> head_problem(const Program& program, const Setting& setting);

/// Why an action may not be in the list of `rank`; nothing if it may.
std::optional<std::string> problem(const Program& program, int rank, const Action& action);

/// What is wrong with the end of the step on a rank.
std::optional<ProgramFault> step_end_of(const std::vector<Action>& actions, int rank);

std::optional<std::string> not_here(const Program& program, int rank, int layer);
std::optional<std::string> not_a_cut(const Program& program, int rank, int layer, bool below);

}  // namespace

Bytes channel_bytes(const Setting& setting, const Program& program, int rank) {
  return channel_bytes(*setting.chain, *setting.platform, program.rank_of_layer, rank);
}

std::optional<std::string> too_large(const chain::Chain& chain, const chain::Platform& platform,
                                     int micro_batches, Bytes fixed) {
  constexpr double kMost = 0x1p61;
  const auto size = [](Bytes bytes) { return static_cast<double>(bytes.count()); };
  double values = size(chain.input), outputs = 0;
  for (const chain::LayerCost& layer : chain.layers) {
    outputs += size(layer.output);
    values += 2 * size(layer.output) + size(layer.tape) + size(layer.forward_transient) +
              size(layer.tape_transient) + size(layer.backward_transient) +
              size(layer.in_parts().pending);
  }
  const double most = values * micro_batches + 4 * platform.channel_buffers * outputs + size(fixed);
  if (most < kMost) return std::nullopt;
  return concat("chain '", chain.name, "' with ", micro_batches, " micro-batches and ",
                trireme::to_text(platform.channel_buffers), " channel buffers: may hold ",
                trireme::to_text(most / 0x1p60), " EiB, must be less than 2");
}

std::string to_text(const ProgramFault& fault) {
  if (fault.rank < 0) return fault.reason;
  if (!fault.action) return concat("rank ", fault.rank, ": ", fault.reason);
  return concat("rank ", fault.rank, ", action ", fault.index, " (", to_text(*fault.action),
                "): ", fault.reason);
}

std::optional<ProgramFault> check_shape(const Program& program, const Setting& setting) {
  ensure(setting.chain != nullptr && setting.platform != nullptr, "a setting has its chain");
  ensure(setting.channel_capacity >= 1, "a channel takes at least one message");
  if (auto reason = head_problem(program, setting))
    return ProgramFault{-1, 0, std::nullopt, std::move(*reason)};
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const std::vector<Action>& actions = program.ranks[rank];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (auto reason = problem(program, static_cast<int>(rank), actions[i]))
        return ProgramFault{static_cast<int>(rank), i, actions[i], std::move(*reason)};
    }
  }
  return std::nullopt;
}

std::optional<ProgramFault> check_step_end(const Program& program) {
  const bool expected =
      std::any_of(program.ranks.begin(), program.ranks.end(), [](const auto& actions) {
        return std::any_of(actions.begin(), actions.end(),
                           [](const Action& action) { return ends_step(action.op); });
      });
  if (!expected) return std::nullopt;
  if (!trains(program))
    return ProgramFault{-1, 0, std::nullopt,
                        "a program without backwards has nothing to step with"};
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
    if (auto fault = step_end_of(program.ranks[rank], static_cast<int>(rank))) return fault;
  return std::nullopt;
}

Ledger::Scope scope_of(const Setting& setting, const Program& program, int rank, bool trains) {
  Ledger::Scope scope{0, 1, trains};
  for (int i = 1; i <= program.layers; ++i) {
    if (program.rank_of_layer[static_cast<std::size_t>(i)] != rank) continue;
    if (scope.first_layer == 0) scope.first_layer = i;
    scope.last_layer = i;
  }
  scope.first_layer = std::max(scope.first_layer, 1);  // a rank without layers has no values either
  const program::LayerUpdates updates =
      program::layer_updates(program.ranks[static_cast<std::size_t>(rank)]);
  // State parts of overlapped updates use their window in a step, too.
  if (update_window(setting, updates, rank) == Bytes(0))
    scope.step = chain::step_room(*setting.chain, offloaded_optimizer(setting, rank));
  return scope;
}

Bytes base_bytes(const Setting& setting, const Program& program, int rank) {
  const auto place = static_cast<std::size_t>(rank);
  const Bytes fixed = setting.static_bytes.empty() ? Bytes(0) : setting.static_bytes.at(place);
  return fixed + channel_bytes(setting, program, rank);
}

Bytes offloaded_optimizer(const Setting& setting, int rank) {
  return setting.offloaded_optimizer.empty()
             ? Bytes(0)
             : setting.offloaded_optimizer.at(static_cast<std::size_t>(rank));
}

Bytes update_window(const Setting& setting, const program::LayerUpdates& updates, int rank) {
  const bool has_state = !updates.layers.empty() && offloaded_optimizer(setting, rank) > Bytes(0);
  return has_state ? setting.update_window : Bytes(0);
}

OffloadRoom always_outside(const Setting& setting, const Program& program, int rank) {
  OffloadRoom room;
  Bytes state;
  for (int i = 1; i <= program.layers; ++i) {
    if (program.rank_of_layer[static_cast<std::size_t>(i)] != rank) continue;
    state += setting.chain->layer(i).optimizer;
    if (!setting.streamed.empty())
      room.weights += setting.streamed[static_cast<std::size_t>(i)].all();
  }
  room.state = chain::state_room(*setting.chain, state, offloaded_optimizer(setting, rank));
  return room;
}

namespace {

bool streams_trained(const Setting& setting, const Program& program, int rank) {
  for (std::size_t i = 1; i < setting.streamed.size(); ++i)
    if (program.rank_of_layer[i] == rank && setting.streamed[i].is_trained) return true;
  return false;
}

std::optional<std::string> head_problem(const Program& program, const Setting& setting) {
  const std::size_t ranks = program.ranks.size();
  if (program.layers != setting.chain->length())
    return concat("a program of ", program.layers, " layers for a chain of ",
                  setting.chain->length());
  if (program.layers < 1 || program.micro_batches < 1)
    return concat("a program of ", program.layers, " layers and ", program.micro_batches,
                  " micro-batches; both must be at least 1");
  if (program.rank_of_layer.size() != static_cast<std::size_t>(program.layers) + 1)
    return concat("rank_of_layer has ", program.rank_of_layer.size(), " entries, must have ",
                  program.layers + 1);
  for (std::size_t i = 0; i < program.rank_of_layer.size(); ++i) {
    const int rank = program.rank_of_layer[i];
    if (rank < 0 || static_cast<std::size_t>(rank) >= ranks)
      return concat("layer ", i, " is on rank ", rank, " of ", ranks);
  }
  const Bytes fixed =
      std::accumulate(setting.static_bytes.begin(), setting.static_bytes.end(), Bytes(0));
  if (auto reason = too_large(*setting.chain, *setting.platform, program.micro_batches, fixed))
    return reason;
  if (program.rank_of_layer[0] != program.rank_of_layer[1])
    return concat("the input is loaded on rank ", program.rank_of_layer[0], ", must be on rank ",
                  program.rank_of_layer[1], " of layer 1");
  if (setting.platform->ranks.size() < ranks)
    return concat("a program for ", ranks, " ranks on a platform of ",
                  setting.platform->ranks.size());
  if (!setting.static_bytes.empty() && setting.static_bytes.size() < ranks)
    return concat("static bytes of ", setting.static_bytes.size(), " ranks, must be of ", ranks);
  if (!setting.offloaded_optimizer.empty() && setting.offloaded_optimizer.size() < ranks)
    return concat("optimizer state of ", setting.offloaded_optimizer.size(), " ranks, must be of ",
                  ranks);
  if (!setting.streamed.empty() && setting.streamed.size() != program.rank_of_layer.size())
    return concat("streamed weights of ", setting.streamed.size(), " layers, must be of ",
                  program.rank_of_layer.size(), ", layer 0 among them");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const chain::RankSpec& spec = setting.platform->ranks[rank];
    if (!(spec.speed > 0))
      return concat("rank ", rank, " has the speed ", spec.speed, ", must be above 0");
    if (offloaded_optimizer(setting, static_cast<int>(rank)) > Bytes(0) &&
        (spec.out.count() <= 0 || spec.in.count() <= 0))
      return concat("rank ", rank, " has optimizer state in the offload tier, but no copy lanes");
    if (always_outside(setting, program, static_cast<int>(rank)).all() > Bytes(0) &&
        spec.in.count() <= 0)
      return concat("rank ", rank, " has weights in the offload tier, but no copy lane from there");
    if (streams_trained(setting, program, static_cast<int>(rank)) && spec.out.count() <= 0)
      return concat("rank ", rank,
                    " has trained weights in the offload tier, but no copy lane back to there");
  }
  return std::nullopt;
}

std::optional<ProgramFault> step_end_of(const std::vector<Action>& actions, int rank) {
  constexpr std::array kEnd = {Op::kReduceGradients, Op::kClip, Op::kStep};
  const auto fault = [&](std::size_t index, std::string reason) {
    return ProgramFault{rank, index,
                        index < actions.size() ? std::optional(actions[index]) : std::nullopt,
                        std::move(reason)};
  };
  std::size_t passes = actions.size();  // where they end
  while (passes > 0 && !is_of_pass(actions[passes - 1].op) && actions[passes - 1].op != Op::kUpdate)
    --passes;
  std::size_t ended = 0;  // of the three
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    const bool is_of_layer =
        ended > 0 && action.op == kEnd[ended - 1] && action.layer > 0 && action.op != Op::kClip;
    if (is_of_layer) continue;
    if (ends_step(action.op) && (i < passes || ended == kEnd.size() || action.op != kEnd[ended]))
      return fault(i, "a step ends with reduce_gradients, clip, step, in this order");
    if (ends_step(action.op) && action.layer > 0)
      return fault(i, concat("the ", name(action.op), " of single layers follows that of layer 0"));
    if (ends_step(action.op)) ++ended;
  }
  if (ended == kEnd.size()) return std::nullopt;
  return fault(actions.size(),
               "reduce_gradients, clip, step are missing at the end, which other ranks have");
}

std::optional<std::string> problem(const Program& program, int rank, const Action& action) {
  const int i = action.layer;
  const int last = program.layers;
  const auto must_be = [&](int layer) -> std::optional<std::string> {
    if (i == layer) return std::nullopt;
    return concat(name(action.op), " must be of layer ", layer);
  };
  if (action.micro_batch < 0 || action.micro_batch >= program.micro_batches)
    return concat("there is no micro-batch ", action.micro_batch, " of ", program.micro_batches);
  switch (action.op) {
    case Op::kForward:
    case Op::kForwardKeep:
    case Op::kForwardTape:
    case Op::kRetape:
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeights:
    case Op::kUpdate:
    case Op::kOffloadTape:
    case Op::kPrefetchTape:
      return not_here(program, rank, i);
    case Op::kDrop:
    case Op::kOffload:
    case Op::kPrefetch:
      if (i >= 0 && i <= last) return std::nullopt;  // the ledger checks whether x[i] is here
      return concat("there is no output ", i, " of 0..", last);
    case Op::kLoadInput:
      if (auto reason = must_be(0)) return reason;
      return not_here(program, rank, 1);
    case Op::kLoadTarget:
    case Op::kReadLoss:
      if (auto reason = must_be(last)) return reason;
      return not_here(program, rank, last);
    case Op::kSendOutput:
    case Op::kReceiveGradient:
      return not_a_cut(program, rank, i, true);
    case Op::kReceiveInput:
    case Op::kSendGradient:
      return not_a_cut(program, rank, i, false);
    case Op::kReduceGradients:
    case Op::kStep:
      if (i > 0) return not_here(program, rank, i);
      [[fallthrough]];
    case Op::kClip:
      if (action.micro_batch != 0) return "an action that ends a step must be of micro-batch 0";
      return must_be(0);
    case Op::kRelease:
    case Op::kReleaseTape:
    case Op::kCopyIn:
    case Op::kCopyInTape:
    case Op::kAwait:
    case Op::kAwaitTape:
      if (i >= 0 && i <= last) return std::nullopt;
      return concat("there is no output ", i, " of 0..", last);
    case Op::kWeightsIn:
    case Op::kWeightsOut:
    case Op::kWeightsRelease:
    case Op::kWeightsFree:
    case Op::kAwaitWeights:
    case Op::kGradientsIn:
    case Op::kGradientsOut:
    case Op::kGradientsRelease:
    case Op::kGradientsFree:
    case Op::kAwaitGradients:
    case Op::kGradientsNew:
    case Op::kNoteNorm:
      return not_here(program, rank, i);
    case Op::kStateIn:
    case Op::kAwaitState:
      return must_be(0);
    case Op::kCompute:
    case Op::kGradient:
    case Op::kAwaitCopy:
    case Op::kFree:
      return "only programs of graphs have it";
  }
  return "an operation without a rule";
}

std::optional<std::string> not_here(const Program& program, int rank, int layer) {
  if (layer < 1 || layer > program.layers)
    return concat("there is no layer ", layer, " of 1..", program.layers);
  const int home = program.rank_of_layer[static_cast<std::size_t>(layer)];
  if (home == rank) return std::nullopt;
  return concat("layer ", layer, " is on rank ", home);
}

std::optional<std::string> not_a_cut(const Program& program, int rank, int layer, bool below) {
  if (layer < 1 || layer >= program.layers)
    return concat("x[", layer, "] passes between no two layers of 1..", program.layers);
  const int from = program.rank_of_layer[static_cast<std::size_t>(layer)];
  const int to = program.rank_of_layer[static_cast<std::size_t>(layer) + 1];
  if (from == to)
    return concat("layers ", layer, " and ", layer + 1, " are both on rank ", from,
                  ": nothing is sent");
  if ((below ? from : to) == rank) return std::nullopt;
  return concat("layer ", below ? layer : layer + 1, " is on rank ", below ? from : to);
}

}  // namespace
}  // namespace trireme::simulate
