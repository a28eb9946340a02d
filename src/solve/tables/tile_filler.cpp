// Computes one tile: first the splits with both sides outside of it, which are done, group by
// group; then, sub-chain by sub-chain from the shortest on, the splits with a side inside of it.
//
// Only what can matter is computed: a draft ends where everything can be kept, and equal sub-chains
// share one column.
//
// SPDX-License-Identifier: Apache-2.0
#include "tile_filler.h"

#include <algorithm>

namespace trireme::solve {
namespace {

// Floats of one draft, whole blocks.
std::size_t stride(int top) {
  return static_cast<std::size_t>(block_of(top + kBlock));
}

}  // namespace

FillJob::FillJob(const Costs& costs, Freedom freedom, const EqualLayers* equal,
                 Tables::State& state)
    : SlotArrays(costs, state.top), costs_(costs), freedom_(freedom), equal_(equal), state_(state) {
  fill_ends(Recurrence::kWhole, whole_end_);
  if (resumes()) fill_ends(Recurrence::kResumed, resumed_end_);
}

int FillJob::load(Recurrence which, int t) const {
  return clipped(solve::load(costs_, which, t), state_.top);
}

// Row by row from the end: the tape of s fits, and with it those of s+1..t.
void FillJob::fill_ends(Recurrence which, std::vector<int>& ends) const {
  ends.resize(sub_chains());
  for (int s = costs_.last(); s >= costs_.first(); --s) {
    for (int t = s; t <= costs_.last(); ++t) {
      Slots most = costs_.backward(s);
      if (which == Recurrence::kWhole || s < t) {
        most = std::max(most, solve::load(costs_, which, t) + costs_.taping(s));
      }
      if (s < t)
        most = std::max<Slots>(most, costs_.tape(s) + ends[row(s + 1) + index(t - s - 1)] - 1);
      ends[row(s) + index(t - s)] = static_cast<int>(std::min<Slots>(most, state_.top)) + 1;
    }
  }
}

TileFiller::TileFiller(const FillJob& job, Arena& arena)
    : job_(job),
      costs_(job.costs()),
      state_(job.state()),
      arena_(arena),
      memory_(aligned_floats(cells_.size() * (job.resumes() ? 2 : 1) * stride(state_.top))) {}

void TileFiller::fill(int row, int column) {
  s0_ = costs_.first() + row * kTile;
  s1_ = std::min(s0_ + kTile - 1, costs_.last());
  t0_ = costs_.first() + column * kTile;
  t1_ = std::min(t0_ + kTile - 1, costs_.last());
  open_drafts();
  if (row != column) add_offload_splits();
  for (int s = s1_; s >= s0_; --s) {
    for (int t = std::max(s, t0_); t <= t1_; ++t) {
      if (cell(s, t).open) close(s, t);
    }
  }
}

void TileFiller::open_drafts() {
  float* memory = memory_.get();
  for (int s = s0_; s <= s1_; ++s) {
    for (int t = std::max(s, t0_); t <= t1_; ++t) {
      TileCell& here = cell(s, t);
      here.open = !take_twin(s, t);
      if (!here.open) continue;
      here.whole.clear(memory, job_.end(Recurrence::kWhole, s, t));
      memory += stride(state_.top);
      if (!job_.resumes()) continue;
      here.resumed.clear(memory, job_.end(Recurrence::kResumed, s, t));
      memory += stride(state_.top);
    }
  }
}

// Whether an equal sub-chain was computed before; an infeasible one counts as not computed, which
// costs next to nothing.
bool TileFiller::take_twin(int s, int t) {
  if (job_.equal() == nullptr) return false;
  const int twin = job_.equal()->twin(s, t), end = twin + t - s;
  if (!state_.whole.of(twin, end).feasible()) return false;
  state_.whole.set(s, t, state_.whole.of(twin, end));
  if (state_.resumed) state_.resumed->set(s, t, state_.resumed->of(twin, end));
  return true;
}

void TileFiller::add_offload_splits() {
  for (int from = s1_; from < t0_; from += kGroup) {
    const int until = std::min(from + kGroup, t0_) - 1;
    for (int s = s0_; s <= s1_; ++s) {
      for (int t = t0_; t <= t1_; ++t) {
        if (cell(s, t).open) add_splits({s, t}, {from, until});
      }
    }
  }
}

void TileFiller::close(int s, int t) {
  if (t0_ <= s1_) {
    add_splits({s, t}, {s, t - 1});
  } else {
    add_splits({s, t}, {s, s1_ - 1});
    add_splits({s, t}, {t0_, t - 1});
  }
  TileCell& here = cell(s, t);
  if (job_.resumes()) {
    set(Recurrence::kResumed, s, t,
        s == t ? state_.column(Recurrence::kResumed, s, s) : finish(here.resumed, arena_));
  }
  if (job_.resumes() || s == t) add_tape_of(t, here.whole, Recurrence::kWhole, {s, t});
  set(Recurrence::kWhole, s, t, finish(here.whole, arena_));
}

void TileFiller::add_splits(chain::LayerRange layers, chain::LayerRange at) {
  if (at.first > at.last) return;
  TileCell& here = cell(layers.first, layers.last);
  add_splits(here.whole, Recurrence::kWhole, layers, at);
  if (job_.resumes()) add_splits(here.resumed, Recurrence::kResumed, layers, at);
}

void TileFiller::add_splits(Draft& draft, Recurrence which, chain::LayerRange layers,
                            chain::LayerRange at) {
  const auto [s, t] = layers;
  auto [from, until] = at;
  if (from == s) add_tape_of(s, draft, which, layers);
  Steps steps{.left = state_.whole.from(s) + (from - s),
              .right = directory(which).until(t) + (from + 1 - costs_.first()),
              .holds = job_.output(from),
              .run = job_.run(s, from),
              .least = job_.nothing(),
              .prefix = job_.redone(from),
              .before = *job_.forward(s - 1),
              .load = job_.load(which, t),
              .count = until - from + 1};
  relax(draft, steps);
  from = std::max(from, s + 1);
  if (!job_.resumes() || from > until) return;
  steps.left = state_.resumed->from(s) + (from - s);
  steps.right = directory(which).until(t) + (from + 1 - costs_.first());
  steps.holds = job_.tape(from);
  steps.run = job_.run(s, from - 1);
  steps.least = job_.taping_with_input(from);
  steps.prefix = job_.forward(from - 1);
  steps.count = until - from + 1;
  relax(draft, steps);
}

void TileFiller::add_tape_of(int at, Draft& draft, Recurrence which, chain::LayerRange layers) {
  const auto [s, t] = layers;
  const Split split = keep_tape(costs_, which, layers, at);
  const Column right =
      at == t ? free_column(0) : directory(which).until(t)[at + 1 - costs_.first()];
  relax(draft, Step{.left = state_.column(Recurrence::kResumed, s, at),
                    .right = right,
                    .holds = clipped(split.holds, state_.top),
                    .needs = clipped(split.needs, state_.top),
                    .runs = static_cast<float>(split.runs)});
}

void TileFiller::set(Recurrence which, int s, int t, const Column& column) {
  directory(which).set(s, t, column);
  if (job_.equal() == nullptr) return;
  const int twin = job_.equal()->twin(s, t);
  directory(which).set(twin, twin + t - s, column);
}

}  // namespace trireme::solve
