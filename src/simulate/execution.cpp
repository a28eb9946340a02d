// Ledger and lanes put together.
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
      forwards_(setup.scope.first_layer, setup.scope.last_layer) {}

std::optional<std::string> Execution::run(const Action& action, std::size_t index) {
  const bool out = program::is_copy_out(action.op);
  const bool in = program::is_copy_in(action.op);
  if (out && setup_.lanes.out.count() <= 0) return "there is no copy lane to the outer tier";
  if (in && setup_.lanes.in.count() <= 0) return "there is no copy lane from the outer tier";
  Ledger::Outcome outcome = ledger_.apply(action);
  if (outcome.fault) return std::move(outcome.fault);
  lanes_.at(index);
  take_time(action);
  await_values(action);
  leave_outer_tier(action);
  await_weights(index);
  const CopyKey key = program::moved_value(action);
  const auto [during, after] = outcome.effect;
  const Bytes running = base() + during;
  at_once_ = running;
  most_at_once_ = std::max(most_at_once_, at_once_);
  if (out) {
    lanes_.offload(key, during - after);
    outer_peak_ = std::max(outer_peak_, ledger_.outer() + returning_bytes_);
  } else if (in) {
    const Bytes size = key.tape ? chain_.layer(action.layer).tape : chain_.output(action.layer);
    if (returning_.emplace(key, size).second) returning_bytes_ += size;
    lanes_.prefetch(key, size);
  } else {
    const std::vector<int> coming = setup_.weights.after(index);
    lanes_.run(running, base() + after, last_duration_);
    fetch_weights(coming);
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
  } else if (action.op == Op::kBackward) {
    last_duration_ = chain_.layer(action.layer).backward / setup_.speed;
  } else if (action.op == Op::kStep) {
    take_update_time();
  }
  busy_ += last_duration_;
  last_duration_ += std::exchange(last_wait_, Seconds(0));
}

// What is away comes, is updated and leaves in parts, all three at a time.
void Execution::take_update_time() {
  last_duration_ = setup_.update / setup_.speed;
  const Bytes state = setup_.optimizer, away = setup_.optimizer_away;
  if (away == Bytes(0)) return;
  const Seconds of_away = state > away ? last_duration_ * (away / state) : last_duration_;
  state_out_ = away / setup_.lanes.out;
  state_in_ = away / setup_.lanes.in;
  last_wait_ = std::max(Seconds(0), std::max(state_out_, state_in_) - of_away);
  state_wait_ += last_wait_;
}

void Execution::await_values(const Action& action) {
  if (!lanes_.copies_in()) return;
  program::for_each_need(action, [&](const CopyKey& key) { lanes_.await(key); });
}

void Execution::leave_outer_tier(const Action& action) {
  if (returning_.empty()) return;
  program::for_each_need(action, [&](const CopyKey& key) {
    const auto back = returning_.find(key);
    if (back == returning_.end()) return;
    returning_bytes_ -= back->second;
    returning_.erase(back);
  });
}

void Execution::await_weights(std::size_t index) {
  const auto arrival = arrivals_.find(setup_.weights.needed(index));
  if (arrival == arrivals_.end()) return;
  const Seconds wait = arrival->second - lanes_.now();
  if (wait <= Seconds(0)) return;
  weights_wait_ += wait;
  lanes_.wait_until(arrival->second);
}

void Execution::fetch_weights(const std::vector<int>& coming) {
  for (const int layer : coming) arrivals_[layer] = lanes_.fetch(layer, setup_.weights.size(layer));
}

}  // namespace trireme::simulate
