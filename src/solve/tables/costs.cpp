// Sizes in slots and the thresholds of the recurrences.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/costs.h"

#include "trireme/core/error.h"

#include <algorithm>

namespace trireme::solve {
namespace {

bool has_retapes(const chain::Chain& chain, int first, int last) {
  for (int i = first; i <= last; ++i) {
    if (chain.layer(i).retape) return true;
  }
  return false;
}

}  // namespace

Costs::Costs(const chain::Chain& chain, int first, int last, Bytes unit, RetapeBytes retapes)
    : first_(first), last_(last), chain_end_(chain.length()), unit_(unit.count()) {
  ensure(first >= 1 && first <= last && last <= chain.length(), "layers lie outside the chain");
  ensure(unit_ >= 1, "a slot has at least one byte");
  const std::size_t size = static_cast<std::size_t>(last - first) + 2;
  output_.assign(size, 0);
  tapes_.assign(size, 0);
  taped_.resize(size);
  if (retapes == RetapeBytes::kTheirOwn && has_retapes(chain, first, last)) retaped_.resize(size);
  forward_.assign(size, 0);
  work_.assign(size, 0);
  saved_.assign(size, 0);
  for (int i = first - 1; i <= last; ++i) input_bytes_.push_back(chain.output(i).count());
  output_[0] = rounded_up(input_bytes_[0]);
  for (int i = first; i <= last; ++i) {
    const chain::LayerCost& layer = chain.layer(i);
    output_[at(i)] = rounded_up(layer.output.count());
    taped_[at(i)] = taped_by(chain, i,
                             {.time = layer.forward,
                              .tape = layer.tape,
                              .tape_transient = layer.tape_transient,
                              .backward_transient = layer.backward_transient});
    if (counts_retapes()) retaped_[at(i)] = taped_by(chain, i, layer.again());
    tapes_[at(i)] = tapes_[at(i - 1)] + tape(i);
    forward_[at(i)] = forward_[at(i - 1)] + layer.forward.count();
    saved_[at(i)] = (layer.forward - layer.again().time).count();
    work_[at(i)] = work_[at(i - 1)] + layer.forward.count() + layer.backward.count();
  }
  fill_runs(chain);
}

Costs::Taped Costs::taped_by(const chain::Chain& chain, int i, const chain::Retape& tape) const {
  const std::int64_t x = chain.output(i).count(), a = tape.tape.count();
  const std::int64_t made = a + tape.tape_transient.count();
  return {.tape = rounded_up(a),
          .waiting = rounded_up(a + x),
          .taping = rounded_up(made),
          .taping_with_input = rounded_up(chain.output(i - 1).count() + made),
          .backward = rounded_up(x + a + tape.backward_transient.count())};
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

Slots load(const Costs& costs, Recurrence which, int t) {
  switch (which) {
    case Recurrence::kWhole:
      return costs.output(t);
    case Recurrence::kResumed:
      return costs.waiting(t);
    case Recurrence::kRetaped:
      return costs.retaped(t).waiting;
    case Recurrence::kFirst:
      return 0;
  }
  return 0;
}

Split keep_output(const Costs& costs, Recurrence which, chain::LayerRange layers, int at) {
  const int s = layers.first, t = layers.last;
  const bool given_away = which == Recurrence::kFirst && at == t;
  return {.keeps = Split::Keeps::kOutput,
          .left = Recurrence::kWhole,
          .at = at,
          .holds = given_away ? 0 : costs.output(at),
          .needs = load(costs, which, t) + costs.run(s, at),
          .runs = costs.redone(s, at)};
}

Split keep_tape(const Costs& costs, Recurrence which, chain::LayerRange layers, int at) {
  const int s = layers.first, t = layers.last;
  // In a kWhole the backward of t follows its tape, and nothing reads x[t].
  const bool retape = which == Recurrence::kWhole && at == t && costs.counts_retapes();
  const Costs::Taped& tape = retape ? costs.retaped(at) : costs.taped(at);
  // The input of s is held outside; that of a later layer was just made and is inside.
  Slots forwards = at == s ? tape.taping : std::max(costs.run(s, at - 1), tape.taping_with_input);
  if (which == Recurrence::kFirst && at == t && at > s && costs.is_loss(t)) {
    // The gradient of x[L] is held as soon as the tape is, before the input can be dropped.
    forwards = std::max(forwards, costs.output(at - 1) + costs.waiting(at));
  }
  return {.keeps = Split::Keeps::kTape,
          .left = retape ? Recurrence::kRetaped : Recurrence::kResumed,
          .at = at,
          .holds = tape.tape,
          .needs = load(costs, which, t) + forwards,
          .runs = costs.forward(s, at - 1)};
}

}  // namespace trireme::solve
