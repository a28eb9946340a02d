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
  last_duration_ = Seconds(0);
  last_again_ = false;
  if (setup_.weights.are_there() || program::moves_weights(action.op))
    if (auto fault = setup_.weights.apply(action)) return fault;
  if (program::moves_weights(action.op)) {
    index_ = index;
    moved_ = true;
    move_weights(action);
    return std::nullopt;
  }
  if (program::is_copy_out(action.op) && setup_.lanes.out.count() <= 0)
    return "there is no copy lane to the offload tier";
  if (program::is_copy_in(action.op) && setup_.lanes.in.count() <= 0)
    return "there is no copy lane from the offload tier";
  count_moves();
  lanes_.at(index);
  index_ = index;
  if (await(action)) return std::nullopt;
  Ledger::Outcome outcome = ledger_.apply(action);
  if (outcome.fault) return std::move(outcome.fault);
  take_time(action);
  await_values(action);
  leave_offload_tier(action);
  run_pass(action, outcome.effect);
  return std::nullopt;
}

bool Execution::await(const Action& action) {
  switch (action.op) {
    case Op::kAwaitWeights:
      await_weights(action.layer, false);
      return true;
    case Op::kAwaitGradients:
      await_weights(action.layer, true);
      return true;
    case Op::kStateIn:
      has_state_ = moved_ = true;
      coming_state_.bring(lanes_);
      return true;
    case Op::kAwaitState:
      wait_for_copy(coming_state_.left());
      has_state_ = false;
      moved_ = true;
      return true;
    default:
      // Copies of values take place in their own time here.
      return action.op == Op::kNoteNorm || program::is_placed_copy(action.op);
  }
}

void Execution::run_pass(const Action& action, const Ledger::Effect& effect) {
  const CopyKey key = program::moved_value(action);
  const auto [during, after] = effect;
  at_once_ = base() + during;
  most_at_once_ = std::max(most_at_once_, at_once_);
  if (program::is_copy_out(action.op)) {
    lanes_.offload(key, during - after);
    most_offload_.values = std::max(most_offload_.values, ledger_.offloaded() + returning_bytes_);
  } else if (program::is_copy_in(action.op)) {
    const Bytes size =
        key.tape ? chain_.layer(action.layer).tape_moves() : chain_.output(action.layer);
    if (returning_.emplace(key, size).second) returning_bytes_ += size;
    lanes_.prefetch(key, size);
  } else if (action.op == Op::kStep && action.layer > 0) {
    step(action.layer, during, after);
  } else {
    const Seconds begin = lanes_.now();
    if (action.op == Op::kUpdate) update(action, at_once_);
    lanes_.run(at_once_, base() + after, last_duration_);
    if (action.op == Op::kUpdate) last_duration_ = lanes_.now() - begin;
  }
  last_end_ = lanes_.now();
}

void Execution::take_time(const Action& action) {
  if (is_forward(action.op)) {
    const chain::LayerCost& layer = chain_.layer(action.layer);
    last_again_ = !forwards_.first_time(action.layer, action.micro_batch);
    const ClockFactors clock = clock_of(action.layer, !last_again_);
    const Seconds usual = action.op == Op::kRetape ? layer.again().time : layer.forward;
    last_duration_ = usual / setup_.speed * clock.time;
    const Joules energy = pass_energy(layer.forward_energy, layer.forward) * clock.power;
    work(last_duration_, energy);
    if (last_again_) {
      recompute_ += last_duration_;
      recompute_energy_ += energy;
    }
  } else if (program::adds_gradients(action.op)) {
    const chain::LayerCost& layer = chain_.layer(action.layer);
    const ClockFactors clock = clock_of(action.layer, false);
    last_duration_ = backward_time(action) / setup_.speed * clock.time;
    work(last_duration_, pass_energy(layer.backward_energy, layer.backward) * clock.power);
  } else if (action.layer > 0) {
    return;  // a layer's part of the end of the step
  } else if (action.op == Op::kReduceGradients) {
    last_wait_ = setup_.reduce;
    replicas_wait_ += setup_.reduce;
  } else if (action.op == Op::kStep) {
    take_update_time();
    work(last_duration_);
    last_wait_ += setup_.share;
    replicas_wait_ += setup_.share;
  }
  last_duration_ += std::exchange(last_wait_, Seconds(0));
}

ClockFactors Execution::clock_of(int layer, bool is_first_forward) const {
  if (setup_.clocks == nullptr) return {};
  const LayerClocks& clocks = (*setup_.clocks)[static_cast<std::size_t>(layer)];
  return is_first_forward ? clocks.forward : clocks.backward;
}

Joules Execution::pass_energy(Joules known, Seconds whole) const {
  if (known == Joules(0)) return setup_.power.busy * last_duration_;
  return whole > Seconds(0) ? known * (last_duration_ * setup_.speed / whole) : known;
}

void Execution::work(Seconds time, Joules energy) {
  busy_ += time;
  compute_energy_ += energy;
}

Seconds Execution::backward_time(const Action& action) const {
  const chain::LayerCost& layer = chain_.layer(action.layer);
  const Seconds of_weights = layer.in_parts().weights;
  if (action.op == Op::kBackwardWeights) return of_weights;
  return action.op == Op::kBackwardInput ? layer.backward - of_weights : layer.backward;
}

// Offloaded state is copied in, updated and copied out in parts, all three overlapped. Layers with
// streamed weights are counted in step(), layers with updates of their own in update().
void Execution::take_update_time() {
  Seconds update = setup_.update;
  Bytes state = setup_.optimizer, offloaded = setup_.offloaded_optimizer;
  const auto leave_out = [&](int layer) {
    update -= chain_.layer(layer).update;
    offloaded -= offloaded_state(layer);
    state -= chain_.layer(layer).optimizer;
  };
  for (const int layer : setup_.weights.stepped()) leave_out(layer);
  for (const auto& [layer, parts] : setup_.updates.layers) leave_out(layer);
  last_duration_ = std::max(Seconds(0), update) / setup_.speed;
  if (offloaded <= Bytes(0)) return;
  const Seconds of_offloaded =
      state > offloaded ? last_duration_ * (offloaded / state) : last_duration_;
  state_out_ = offloaded / setup_.lanes.out;
  state_in_ = offloaded / setup_.lanes.in;
  state_moved_ += offloaded;
  last_wait_ = std::max(Seconds(0), std::max(state_out_, state_in_) - of_offloaded);
  state_wait_ += last_wait_;
}

ComingState Execution::state_of_updates() const {
  std::vector<std::pair<int, Bytes>> layers;
  for (const auto& [layer, parts] : setup_.updates.layers)
    layers.emplace_back(layer, offloaded_state(layer));
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
    work(time);
    lanes_.run(held, held, time);
  };
  for (int k = share.first; k < share.end; ++k) {
    wait_for_copy(coming_state_.next_arrival());
    run(all * (coming_state_.next_size() / state));
    state_moved_ += coming_state_.next_size();
    wait_for_copy(coming_state_.leave(lanes_));
    coming_state_.bring(lanes_);
  }
  if (action.micro_batch + 1 < actions) return;
  run(state == Bytes(0) ? all : all * ((state - offloaded_state(action.layer)) / state));
}

Bytes Execution::offloaded_state(int layer) const {
  if (setup_.offloaded_optimizer == Bytes(0)) return Bytes(0);
  const double share = chain_.layer(layer).optimizer / setup_.optimizer;
  return Bytes(static_cast<Bytes::rep>(share * double(setup_.offloaded_optimizer.count())));
}

void Execution::step(int layer, Bytes during, Bytes after) {
  const Bytes state = offloaded_state(layer);
  state_moved_ += state;
  const Seconds there = state > Bytes(0) ? lanes_.occupy_in(state) : Seconds(0);
  const Seconds begin = lanes_.now();
  const Seconds time = chain_.layer(layer).update / setup_.speed;
  work(time);
  lanes_.run(base() + during, base() + after, time);
  wait_for_copy(there);
  last_duration_ = lanes_.now() - begin;
  if (state > Bytes(0)) lanes_.occupy_out(state);
}

// Copies out begun at the end of the use before must end before anything is copied in.
void Execution::move_weights(const Action& action) {
  switch (action.op) {
    case Op::kWeightsRelease:
    case Op::kGradientsRelease:
      return wait_for_copy(weights_left_);
    case Op::kWeightsOut:
    case Op::kGradientsOut:
      weights_left_ = lanes_.leave(action.layer, setup_.weights.size(action));
      return;
    case Op::kWeightsIn:
    case Op::kGradientsIn: {
      const Bytes size = setup_.weights.size(action);
      arrivals_[{action.layer, action.op == Op::kGradientsIn}] = lanes_.fetch(action.layer, size);
      weights_moved_ += size;
      return;
    }
    default:
      return;
  }
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

void Execution::await_weights(int layer, bool gradients) {
  const auto arrival = arrivals_.find({layer, gradients});
  if (arrival != arrivals_.end()) wait_for_copy(arrival->second);
}

void Execution::wait_for_copy(Seconds time) {
  const Seconds wait = time - lanes_.now();
  if (wait <= Seconds(0)) return;
  weights_wait_ += wait;
  lanes_.wait_until(time);
}

}  // namespace trireme::simulate
