// Execution of actions on ledger and lanes together.
// SPDX-License-Identifier: Apache-2.0
#include "execution.h"

#include "trireme/core/error.h"
#include "trireme/program/needs.h"

#include <algorithm>
#include <utility>

namespace trireme::simulate {

using program::Action;
using program::Op;

Execution::Execution(const chain::Chain& chain, const Setup& setup)
    : chain_(chain),
      setup_(setup),
      ledger_(chain, setup.scope),
      lanes_(setup.lanes, base(), setup.record),
      coming_state_(state_of_updates()),
      most_offload_(setup.outside),
      forwards_(setup.scope.first_layer, setup.scope.last_layer) {}

std::optional<std::string> Execution::run(const Action& action, std::size_t index) {
  const bool out = program::is_copy_out(action.op);
  const bool in = program::is_copy_in(action.op);
  if (out && setup_.lanes.out.count() <= 0) return "there is no copy lane to the offload tier";
  if (in && setup_.lanes.in.count() <= 0) return "there is no copy lane from the offload tier";
  Ledger::Outcome outcome = ledger_.apply(action);
  if (outcome.fault) return std::move(outcome.fault);
  lanes_.at(index);
  index_ = index;
  if (index == setup_.updates.state_begins) coming_state_.bring(lanes_);
  take_time(action);
  await_values(action);
  leave_offload_tier(action);
  await_weights();
  const CopyKey key = program::moved_value(action);
  const auto [during, after] = outcome.effect;
  const Bytes running = base() + during;
  at_once_ = running;
  most_at_once_ = std::max(most_at_once_, at_once_);
  if (out) {
    lanes_.offload(key, during - after);
    most_offload_.values = std::max(most_offload_.values, ledger_.offloaded() + returning_bytes_);
  } else if (in) {
    const Bytes size = key.tape ? chain_.layer(action.layer).tape : chain_.output(action.layer);
    if (returning_.emplace(key, size).second) returning_bytes_ += size;
    lanes_.prefetch(key, size);
  } else {
    compute(action, during, after);
  }
  return std::nullopt;
}

void Execution::take_time(const Action& action) {
  last_duration_ = Seconds(0);
  last_again_ = false;
  if (is_forward(action.op)) {
    last_duration_ = (action.op == Op::kRetape ? chain_.layer(action.layer).again().time
                                               : chain_.layer(action.layer).forward) /
                     setup_.speed;
    last_again_ = !forwards_.first_time(action.layer, action.micro_batch);
    if (last_again_) recompute_ += last_duration_;
  } else if (program::adds_gradients(action.op)) {
    last_duration_ = backward_time(action) / setup_.speed;
  } else if (action.op == Op::kReduceGradients) {
    last_wait_ = setup_.reduce;
    replicas_wait_ += setup_.reduce;
  } else if (action.op == Op::kStep) {
    take_update_time();
    last_wait_ += setup_.share;
    replicas_wait_ += setup_.share;
  }
  busy_ += last_duration_;
  last_duration_ += std::exchange(last_wait_, Seconds(0));
}

Seconds Execution::backward_time(const Action& action) const {
  const chain::LayerCost& layer = chain_.layer(action.layer);
  const Seconds of_weights = layer.in_parts().weights;
  if (action.op == Op::kBackwardWeights) return of_weights;
  return action.op == Op::kBackwardInput ? layer.backward - of_weights : layer.backward;
}

// Offloaded state is copied in, updated and copied out in parts, all three overlapped. Layers with
// streamed weights are counted in use_within(), layers with updates of their own in update().
void Execution::take_update_time() {
  Seconds update = setup_.update;
  Bytes state = setup_.optimizer, away = setup_.optimizer_away;
  if (setup_.weights.has_points()) {
    for (const RankWeights::Use& use : setup_.weights.point(index_).within) {
      update -= chain_.layer(use.layer).update;
      away -= state_away(use.layer);
      state -= chain_.layer(use.layer).optimizer;
    }
  }
  for (const auto& [layer, parts] : setup_.updates.layers) {
    update -= chain_.layer(layer).update;
    away -= state_away(layer);
    state -= chain_.layer(layer).optimizer;
  }
  last_duration_ = std::max(Seconds(0), update) / setup_.speed;
  if (away <= Bytes(0)) return;
  const Seconds of_away = state > away ? last_duration_ * (away / state) : last_duration_;
  state_out_ = away / setup_.lanes.out;
  state_in_ = away / setup_.lanes.in;
  state_moved_ += away;
  last_wait_ = std::max(Seconds(0), std::max(state_out_, state_in_) - of_away);
  state_wait_ += last_wait_;
}

ComingState Execution::state_of_updates() const {
  std::vector<std::pair<int, Bytes>> layers;
  for (const auto& [layer, parts] : setup_.updates.layers)
    layers.emplace_back(layer, state_away(layer));
  return {layers, chain::state_parts(chain_, setup_.update_window)};
}

// The actions of an update have equal shares of the offloaded parts; the last one also updates the
// state that stays on the device.
void Execution::update(const Action& action, Bytes held) {
  const int actions = setup_.updates.parts(action.layer);
  const program::Share share =
      program::share_of(action.micro_batch, actions, coming_state_.count(action.layer));
  const Seconds all = chain_.layer(action.layer).update / setup_.speed;
  const Bytes state = chain_.layer(action.layer).optimizer;
  const auto run = [&](Seconds time) {
    busy_ += time;
    lanes_.run(held, held, time);
  };
  for (int k = share.first; k < share.end; ++k) {
    wait_for_weights(coming_state_.next_arrival());
    run(all * (coming_state_.next_size() / state));
    state_moved_ += coming_state_.next_size();
    wait_for_weights(coming_state_.leave(lanes_));
    coming_state_.bring(lanes_);
  }
  if (index_ == setup_.updates.last) wait_for_weights(coming_state_.left());
  if (action.micro_batch + 1 < actions) return;
  run(state == Bytes(0) ? all : all * ((state - state_away(action.layer)) / state));
}

Bytes Execution::state_away(int layer) const {
  if (setup_.optimizer_away == Bytes(0)) return Bytes(0);
  const double share = chain_.layer(layer).optimizer / setup_.optimizer;
  return Bytes(static_cast<Bytes::rep>(share * double(setup_.optimizer_away.count())));
}

void Execution::compute(const Action& action, Bytes during, Bytes after) {
  const Seconds begin = lanes_.now();
  if (!setup_.weights.has_points()) {
    if (action.op == Op::kUpdate) update(action, base() + during);
    lanes_.run(base() + during, base() + after, last_duration_);
    last_end_ = lanes_.now();
    return;
  }
  const program::WeightUses::Point& point = setup_.weights.point(index_);
  const Bytes running = base() + during;
  std::vector<program::WeightsMove> moves;
  if (point.ends) moves = setup_.weights.end(*point.ends);
  if (action.op == Op::kUpdate) update(action, running);
  lanes_.run(running, base() + (point.within.empty() ? after : during), last_duration_);
  for (const RankWeights::Use& use : point.within) use_within(use, during, action.op == Op::kStep);
  last_end_ = lanes_.now();
  if (!point.within.empty() || action.op == Op::kUpdate) last_duration_ = last_end_ - begin;
  if (point.ends) copy_weights(moves);
  if (action.op == Op::kStep) settle_weights();
}

void Execution::use_within(const RankWeights::Use& use, Bytes held, bool updates) {
  await_weights(use.layer, false);
  await_weights(use.layer, true);
  const Bytes running = base() + held;
  at_once_ = std::max(at_once_, running);
  most_at_once_ = std::max(most_at_once_, at_once_);
  const Bytes state = updates ? state_away(use.layer) : Bytes(0);
  state_moved_ += state;
  const Seconds there = state > Bytes(0) ? lanes_.occupy_in(state) : Seconds(0);
  const Seconds time = updates ? chain_.layer(use.layer).update / setup_.speed : Seconds(0);
  busy_ += time;
  const std::vector<program::WeightsMove> moves = setup_.weights.end(use);
  lanes_.run(running, base() + held, time);
  wait_for_weights(there);
  if (state > Bytes(0)) lanes_.occupy_out(state);
  copy_weights(moves);
}

void Execution::await_values(const Action& action) {
  if (!lanes_.copies_in()) return;
  program::for_each_need(action, [&](const CopyKey& key) { lanes_.await(key); });
}

void Execution::leave_offload_tier(const Action& action) {
  if (returning_.empty()) return;
  program::for_each_need(action, [&](const CopyKey& key) {
    const auto back = returning_.find(key);
    if (back == returning_.end()) return;
    returning_bytes_ -= back->second;
    returning_.erase(back);
  });
}

void Execution::await_weights() {
  if (!setup_.weights.has_points()) return;
  const program::WeightUses::Point& point = setup_.weights.point(index_);
  if (point.needs != 0) await_weights(point.needs, false);
  if (point.needs_gradients) await_weights(point.needs, true);
}

void Execution::await_weights(int layer, bool gradients) {
  const auto arrival = arrivals_.find({layer, gradients});
  if (arrival != arrivals_.end()) wait_for_weights(arrival->second);
}

void Execution::wait_for_weights(Seconds time) {
  const Seconds wait = time - lanes_.now();
  if (wait <= Seconds(0)) return;
  weights_wait_ += wait;
  lanes_.wait_until(time);
}

// Copies out begun at the end of the use before must end before anything is copied in.
void Execution::copy_weights(const std::vector<program::WeightsMove>& moves) {
  using Kind = program::WeightsMove::Kind;
  wait_for_weights(weights_left_);
  for (const program::WeightsMove& move : moves) {
    const Bytes size = setup_.weights.size(move);
    if (move.kind == Kind::kOut) weights_left_ = lanes_.leave(move.layer, size);
    if (move.kind != Kind::kIn) continue;
    arrivals_[{move.layer, move.of_gradients}] = lanes_.fetch(move.layer, size);
    weights_moved_ += size;
  }
}

// A step ends once no weights are being copied.
void Execution::settle_weights() {
  wait_for_weights(weights_left_);
  for (const auto& [what, time] : arrivals_) wait_for_weights(time);
}

}  // namespace trireme::simulate
