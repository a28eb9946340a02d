// Sizes in slots and the thresholds of the recurrences.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/costs.h"

#include "trireme/core/error.h"

#include <algorithm>

namespace trireme::solve {

Costs::Costs(const chain::Chain& chain, int first, int last, Bytes unit)
    : first_(first), last_(last), chain_end_(chain.length()), unit_(unit.count()) {
  ensure(first >= 1 && first <= last && last <= chain.length(), "layers lie outside the chain");
  ensure(unit_ >= 1, "a slot has at least one byte");
  const std::size_t size = static_cast<std::size_t>(last - first) + 2;
  for (auto* sizes :
       {&output_, &tape_, &waiting_, &taping_, &taping_with_input_, &backward_, &tapes_}) {
    sizes->assign(size, 0);
  }
  forward_.assign(size, 0);
  work_.assign(size, 0);
  saved_.assign(size, 0);
  for (int i = first - 1; i <= last; ++i) input_bytes_.push_back(chain.output(i).count());
  output_[0] = rounded_up(input_bytes_[0]);
  for (int i = first; i <= last; ++i) {
    const chain::LayerCost& layer = chain.layer(i);
    const std::int64_t x = layer.output.count(), a = layer.tape.count();
    const std::int64_t taped = a + layer.tape_transient.count();
    output_[at(i)] = rounded_up(x);
    tape_[at(i)] = rounded_up(a);
    tapes_[at(i)] = tapes_[at(i - 1)] + tape_[at(i)];
    waiting_[at(i)] = rounded_up(a + x);
    taping_[at(i)] = rounded_up(taped);
    taping_with_input_[at(i)] = rounded_up(chain.output(i - 1).count() + taped);
    backward_[at(i)] = rounded_up(x + a + layer.backward_transient.count());
    forward_[at(i)] = forward_[at(i - 1)] + layer.forward.count();
    saved_[at(i)] = (layer.forward - layer.again().time).count();
    work_[at(i)] = work_[at(i - 1)] + layer.forward.count() + layer.backward.count();
  }
  fill_runs(chain);
}

void Costs::fill_runs(const chain::Chain& chain) {
  const std::size_t n = static_cast<std::size_t>(last_ - first_) + 1;
  run_.reserve(n * (n + 1) / 2);
  row_.assign(n + 1, 0);
  for (int s = first_; s <= last_; ++s) {
    row_[at(s)] = run_.size();
    Slots most = 0;
    for (int k = s; k <= last_; ++k) {
      const std::int64_t input = k == s ? 0 : chain.output(k - 1).count();
      const chain::LayerCost& layer = chain.layer(k);
      most = std::max(most,
                      rounded_up(input + layer.output.count() + layer.forward_transient.count()));
      run_.push_back(most);
    }
  }
}

Seconds Costs::work(int s, int t) const {
  return Seconds(t < s ? 0.0 : work_[at(t)] - work_[at(s - 1)]);
}

Slots Costs::slots_in(Bytes bytes) const {
  return bytes < Bytes(0) ? -1 : bytes.count() / unit_;
}

Slots load(const Costs& costs, Part part, int t) {
  switch (part) {
    case Part::kWhole:
      return costs.output(t);
    case Part::kResumed:
      return costs.waiting(t);
    case Part::kFirst:
      return 0;
  }
  return 0;
}

Split keep_output(const Costs& costs, Part part, int s, int t, int at) {
  const bool given_away = part == Part::kFirst && at == t;
  return {.keeps = Split::Keeps::kOutput,
          .at = at,
          .holds = given_away ? 0 : costs.output(at),
          .needs = load(costs, part, t) + costs.run(s, at),
          .runs = costs.redone(s, at)};
}

Split keep_tape(const Costs& costs, Part part, int s, int t, int at) {
  // The input of s is held outside; that of a later layer was just made and is inside.
  Slots forwards =
      at == s ? costs.taping(s) : std::max(costs.run(s, at - 1), costs.taping_with_input(at));
  if (part == Part::kFirst && at == t && at > s && costs.is_loss(t)) {
    // The gradient of x[L] is there as soon as the tape is, before the input can be dropped.
    forwards = std::max(forwards, costs.output(at - 1) + costs.waiting(at));
  }
  return {.keeps = Split::Keeps::kTape,
          .at = at,
          .holds = costs.tape(at),
          .needs = load(costs, part, t) + forwards,
          .runs = costs.forward(s, at - 1)};
}

}  // namespace trireme::solve
