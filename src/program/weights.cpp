// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weights.h"

#include "trireme/core/error.h"
#include "trireme/program/updates.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>

namespace trireme::program {
namespace {

/// The weights of a layer, or their gradients.
using Part = std::pair<int, bool>;

/// Writes one rank's list.
class Writer {
 public:
  Writer(const std::vector<Action>& actions, const WeightUses& uses, bool has_replicas)
      : actions_(actions), uses_(uses), has_replicas_(has_replicas) {
    completes_.resize(actions.size());
    std::set<int> seen;
    for (std::size_t i = actions.size(); i-- > 0;)
      completes_[i] = adds_gradients(actions[i].op) && uses.points[i].needs_gradients &&
                      seen.insert(uses.points[i].needs).second;
    here_.hold(uses.first);
  }

  /// The list of a run that begins with what the run before has left.
  std::vector<Action> run();
  const WeightsHere& here() const { return here_; }

 private:
  void begin();
  void add(const Action& action, const WeightUses::Point& point);
  void await(int layer, bool gradients);
  void end(const WeightUses::Use& use);
  void release();
  void settle();

  const std::vector<Action>& actions_;
  const WeightUses& uses_;
  bool has_replicas_;
  std::vector<bool> completes_;  ///< by action: its layer's gradients are complete after it
  WeightsHere here_;
  std::vector<WeightsMove> leaving_;
  std::set<Part> coming_;  ///< copied in, and not awaited yet
  std::vector<Action> written_;
};

std::vector<Action> Writer::run() {
  written_.clear();
  begin();
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const WeightUses::Point& point = uses_.points[i];
    add(actions_[i], point);
    if (completes_[i] && !has_replicas_) written_.push_back({Op::kNoteNorm, point.needs});
    if (point.ends) end(*point.ends);
  }
  if (!actions_.empty() && actions_.back().op == Op::kStep) settle();
  return written_;
}

void Writer::begin() {
  leaving_.clear();
  coming_.clear();
  for (const HeldLayer& held : uses_.first) {
    if (held.weights) coming_.insert({held.layer, false});
    if (held.gradients != HeldLayer::Gradients::kNone) coming_.insert({held.layer, true});
  }
}

void Writer::add(const Action& action, const WeightUses::Point& point) {
  if (point.needs != 0) await(point.needs, false);
  if (point.needs_gradients) await(point.needs, true);
  written_.push_back(action);
  for (const WeightUses::Use& use : point.within) {
    if (action.op == Op::kStep) await(use.layer, false);
    await(use.layer, true);
    written_.push_back({action.op, use.layer});
    if (action.op == Op::kReduceGradients) written_.push_back({Op::kNoteNorm, use.layer});
    end(use);
  }
}

void Writer::await(int layer, bool gradients) {
  if (coming_.erase({layer, gradients}) > 0)
    written_.push_back({gradients ? Op::kAwaitGradients : Op::kAwaitWeights, layer});
}

void Writer::end(const WeightUses::Use& use) {
  here_.used(use.layer, use.change);
  const std::vector<WeightsMove> moves = here_.hold(use.held);
  release();
  for (const WeightsMove& move : moves) {
    const Part part{move.layer, move.of_gradients};
    written_.push_back(action_of(move));
    if (move.kind == WeightsMove::Kind::kOut) leaving_.push_back(move);
    if (move.kind == WeightsMove::Kind::kIn) coming_.insert(part);
    if (move.kind != WeightsMove::Kind::kIn) coming_.erase(part);
  }
}

void Writer::release() {
  for (const WeightsMove& move : std::exchange(leaving_, {})) written_.push_back(release_of(move));
}

void Writer::settle() {
  release();
  for (const Part& part : std::set<Part>(coming_)) await(part.first, part.second);
}

/// What a list uses before it brings it.
class Beginning {
 public:
  explicit Beginning(const std::vector<Action>& actions) {
    for (const Action& action : actions) see(action);
  }
  HeldWeights held() && { return std::move(held_); }

 private:
  using Gradients = HeldLayer::Gradients;

  void see(const Action& action);
  HeldLayer& of_layer(int layer);

  HeldWeights held_;
  std::set<Part> seen_;
  std::set<int> unread_;  ///< layers whose gradients were not used yet
};

void Beginning::see(const Action& action) {
  const int layer = action.layer;
  if (action.op == Op::kWeightsIn) seen_.insert({layer, false});
  if (action.op == Op::kGradientsIn || action.op == Op::kGradientsNew) seen_.insert({layer, true});
  if (action.op == Op::kAwaitWeights && seen_.insert({layer, false}).second)
    of_layer(layer).weights = true;
  if (action.op == Op::kAwaitGradients && seen_.insert({layer, true}).second) {
    of_layer(layer).gradients = Gradients::kNew;
    unread_.insert(layer);
  }
  if (adds_gradients(action.op)) unread_.erase(layer);
  // The update of the step before reads its sums.
  if (action.op == Op::kUpdate && unread_.erase(layer) > 0)
    of_layer(layer).gradients = Gradients::kSums;
}

HeldLayer& Beginning::of_layer(int layer) {
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const HeldLayer& one) { return one.layer == layer; });
  if (found != held_.end()) return *found;
  return held_.emplace_back(HeldLayer{.layer = layer, .weights = false});
}

constexpr std::array<std::pair<Op, WeightsMove>, 7> kMoves{{
    {Op::kWeightsFree, {WeightsMove::Kind::kLetGo, 0, false}},
    {Op::kWeightsOut, {WeightsMove::Kind::kOut, 0, false}},
    {Op::kWeightsIn, {WeightsMove::Kind::kIn, 0, false}},
    {Op::kGradientsFree, {WeightsMove::Kind::kLetGo, 0, true}},
    {Op::kGradientsOut, {WeightsMove::Kind::kOut, 0, true}},
    {Op::kGradientsIn, {WeightsMove::Kind::kIn, 0, true}},
    {Op::kGradientsNew, {WeightsMove::Kind::kTake, 0, true}},
}};

}  // namespace

bool is_release(Op op) {
  return op == Op::kWeightsRelease || op == Op::kGradientsRelease;
}

Action release_of(const WeightsMove& move) {
  return {move.of_gradients ? Op::kGradientsRelease : Op::kWeightsRelease, move.layer};
}

Action action_of(const WeightsMove& move) {
  for (const auto& [op, like] : kMoves)
    if (like.kind == move.kind && like.of_gradients == move.of_gradients) return {op, move.layer};
  throw LogicError("a move without an action");
}

WeightsMove move_of(const Action& action) {
  for (auto [op, move] : kMoves) {
    move.layer = action.layer;
    if (op == action.op) return move;
  }
  throw LogicError("an action that is no move of weights");
}

Streaming streaming_of(const std::vector<chain::OffloadWeights>& streamed, int at_once,
                       bool has_replicas) {
  Streaming streaming{.kinds = {}, .at_once = at_once, .has_replicas = has_replicas};
  for (const chain::OffloadWeights& weights : streamed)
    streaming.kinds.push_back(weights.all() == Bytes(0) ? WeightsKind::kStay
                              : weights.is_trained      ? WeightsKind::kTrained
                                                        : WeightsKind::kFrozen);
  return streaming;
}

std::vector<Action> with_weights(const std::vector<Action>& actions, const Streaming& streaming) {
  if (streaming.kinds.empty()) return actions;
  const WeightUses uses =
      weight_uses(actions, streaming.kinds, streaming.at_once, streaming.has_replicas);
  if (uses.points.empty()) return actions;
  Writer writer(actions, uses, streaming.has_replicas);
  const WeightsHere at_first = writer.here();
  std::vector<Action> written = writer.run();
  // Weights that an update has changed at the end are to be copied out in the next run.
  return writer.here() == at_first ? written : writer.run();
}

Program with_weights(Program program, const Streaming& streaming) {
  if (streaming.kinds.empty()) return program;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    Streaming mine = streaming;
    for (std::size_t layer = 0; layer < mine.kinds.size(); ++layer)
      if (std::cmp_not_equal(program.rank_of_layer.at(layer), rank))
        mine.kinds[layer] = WeightsKind::kStay;
    program.ranks[rank] = with_weights(program.ranks[rank], mine);
  }
  return program;
}

HeldWeights held_at_begin(const std::vector<Action>& actions) {
  return Beginning(actions).held();
}

}  // namespace trireme::program
