// V-Half and V-Min by building blocks (Qi et al. 2024, Pipeline Parallelism with Controllable
// Memory): the passes of one micro-batch are laid out once, in slots of equal length, and this
// block is repeated for every micro-batch, a period later each. How long a micro-batch lives in a
// block, in periods, is how many are in flight. Gradients of weights go to slots that are left.
//
// A period has no gaps, but the ends of the step have: passes move forward into them, first with
// the W's where they are, then without them (the W's follow), unless a rank would then hold more
// than any did before.
// SPDX-License-Identifier: Apache-2.0
#include "makers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace trireme::schedule {
namespace {

/// In the order in which a micro-batch takes them on a rank; W's of both chunks in one.
enum Leg : int { kF0, kF1, kI1, kI0, kW };
constexpr int kEmpty = -1;
constexpr int kPeriod = 6;  // slots: F, I and W of two chunks

/// Slots of the first micro-batch on a rank: F0, F1, I1, I0.
using Block = std::array<int, 4>;
/// By leg, the slots of its passes on a rank, by micro-batch (of W's: one after the other).
using Slots = std::array<std::vector<int>, 5>;

struct Placed {
  int slot = 0, rank = 0, leg = 0;
  std::size_t n = 0;  // of this leg on this rank
  auto operator<=>(const Placed&) const = default;
};

enum class Ends { kBoth, kLast };

/// A rank's slots, and what it holds in them.
class Line {
 public:
  /// Where `fills` is set, W's are not among the slots: each empty one takes one that waits.
  Line(const Slots& slots, bool fills);

  bool is_empty(int slot) const { return legs_[static_cast<std::size_t>(slot)] == kEmpty; }
  /// Largest number of chunks' activations.
  int most_held() const;
  /// Moves a pass to an earlier slot; not where the rank would then hold more than `most`.
  bool move(int from, int to, int most);

 private:
  struct State {
    int held = 0;
    int waiting = 0;  // W's
    bool operator==(const State&) const = default;
  };
  State after(State before, int leg) const;
  /// What is held from slot `begin` on, where slots up to `last` were changed: false if that is
  /// more than `most` somewhere; with `keep`, remembers it.
  bool walk(std::size_t begin, std::size_t last, int most, bool keep);

  bool fills_;
  std::vector<int> legs_;      // by slot
  std::vector<State> states_;  // after each slot
};

Order order_of_blocks(const std::vector<Block>& blocks, int micro_batches);

std::vector<Slots> repeated(const std::vector<Block>& blocks, int micro_batches);
/// Puts W's into the first slots that are left, or takes them out.
void place_weights(std::vector<Slots>& slots);
void drop_weights(std::vector<Slots>& slots);
/// Slots of W's and the legs of their I's, where `slots` has no W's yet.
std::vector<std::pair<int, int>> weights_in_gaps(const Slots& slots);
/// Moves passes forward at both ends of the step or at the last alone.
void move_forward(std::vector<Slots>& slots, Ends ends);
/// Moves all passes forward as far as they can without another order.
void close_gaps(std::vector<Slots>& slots);

/// All passes by slot, then rank.
std::vector<Placed> in_order(const std::vector<Slots>& slots);
/// The first slot that a pass may have for what it needs.
int earliest(const std::vector<Slots>& slots, const Placed& pass);
std::vector<int> legs_by_slot(const Slots& slots);
std::vector<Pass> passes_of(const Slots& slots, int ranks, int rank);

}  // namespace

Order v_half(int ranks, int micro_batches) {
  std::vector<Block> blocks;
  blocks.reserve(static_cast<std::size_t>(ranks));
  const int pause = ranks % 2 == 0 ? 3 : 0;  // else two passes would have one slot
  for (int rank = 0; rank < ranks; ++rank)
    blocks.push_back({2 * rank, 3 * ranks - 2 - rank, 3 * ranks + pause + 2 * rank - 1,
                      6 * ranks + pause - 2 - rank});
  return order_of_blocks(blocks, micro_batches);
}

Order v_min(int ranks, int micro_batches) {
  std::vector<Block> blocks;
  blocks.reserve(static_cast<std::size_t>(ranks));
  const int pause = ranks % 3 == 0 ? 2 : 0;
  for (int rank = 0; rank < ranks; ++rank)
    blocks.push_back(
        {rank, 2 * ranks - 1 - rank, 2 * ranks + pause + rank, 4 * ranks + pause - 1 - rank});
  return order_of_blocks(blocks, micro_batches);
}

namespace {

Order order_of_blocks(const std::vector<Block>& blocks, int micro_batches) {
  std::vector<Slots> slots = repeated(blocks, micro_batches);
  place_weights(slots);
  move_forward(slots, Ends::kBoth);
  close_gaps(slots);
  drop_weights(slots);
  move_forward(slots, Ends::kLast);
  place_weights(slots);
  close_gaps(slots);
  drop_weights(slots);  // passes_of() puts them back, each with its chunk
  Order order;
  for (std::size_t rank = 0; rank < slots.size(); ++rank)
    order.push_back(passes_of(slots[rank], static_cast<int>(slots.size()), static_cast<int>(rank)));
  return order;
}

std::vector<Slots> repeated(const std::vector<Block>& blocks, int micro_batches) {
  std::vector<Slots> slots(blocks.size());
  for (std::size_t rank = 0; rank < blocks.size(); ++rank)
    for (std::size_t leg = 0; leg < blocks[rank].size(); ++leg)
      for (int m = 0; m < micro_batches; ++m)
        slots[rank][leg].push_back(blocks[rank][leg] + kPeriod * m);
  return slots;
}

void place_weights(std::vector<Slots>& slots) {
  for (Slots& rank : slots)
    for (const auto& [slot, leg] : weights_in_gaps(rank)) rank[kW].push_back(slot);
}

void drop_weights(std::vector<Slots>& slots) {
  for (Slots& rank : slots) rank[kW].clear();
}

std::vector<std::pair<int, int>> weights_in_gaps(const Slots& slots) {
  const std::vector<int> legs = legs_by_slot(slots);
  std::map<int, int> waiting;  // by leg of the I; that of the chunk on the way up goes first
  std::vector<std::pair<int, int>> weights;
  const auto take = [&](std::size_t slot) {
    const auto next = waiting.begin();
    weights.emplace_back(static_cast<int>(slot), next->first);
    if (--next->second == 0) waiting.erase(next);
  };
  for (std::size_t slot = 0; slot < legs.size(); ++slot) {
    if (legs[slot] == kI1 || legs[slot] == kI0) ++waiting[legs[slot]];
    if (legs[slot] == kEmpty && !waiting.empty()) take(slot);
  }
  for (std::size_t slot = legs.size(); !waiting.empty(); ++slot) take(slot);
  return weights;
}

void move_forward(std::vector<Slots>& slots, Ends ends) {
  const bool fills = slots[0][kW].empty();
  std::vector<Line> lines;
  int most = 0;
  for (const Slots& rank : slots) {
    lines.emplace_back(rank, fills);
    most = std::max(most, lines.back().most_held());
  }
  const int first_backward = slots[0][kI0].front(), last_forward = slots[0][kF0].back();
  for (const Placed& pass : in_order(slots)) {
    const bool begins = pass.slot < first_backward;
    const bool stops = std::pair(pass.slot, pass.rank) > std::pair(last_forward, 0);
    // few micro-batches: both, for the forwards are out before the first is back
    if (!stops && !(begins && ends == Ends::kBoth)) continue;
    const auto rank = static_cast<std::size_t>(pass.rank);
    for (int to = earliest(slots, pass); to < pass.slot; ++to) {
      if (!lines[rank].is_empty(to) || !lines[rank].move(pass.slot, to, most)) continue;
      slots[rank][static_cast<std::size_t>(pass.leg)][pass.n] = to;
      break;
    }
  }
}

void close_gaps(std::vector<Slots>& slots) {
  std::vector<int> free(slots.size());  // by rank, its next slot
  for (const Placed& pass : in_order(slots)) {
    const auto rank = static_cast<std::size_t>(pass.rank);
    const int slot = std::max(free[rank], earliest(slots, pass));
    slots[rank][static_cast<std::size_t>(pass.leg)][pass.n] = slot;
    free[rank] = slot + 1;
  }
}

std::vector<Placed> in_order(const std::vector<Slots>& slots) {
  std::vector<Placed> passes;
  for (std::size_t rank = 0; rank < slots.size(); ++rank)
    for (std::size_t leg = 0; leg < slots[rank].size(); ++leg)
      for (std::size_t n = 0; n < slots[rank][leg].size(); ++n)
        passes.push_back({slots[rank][leg][n], static_cast<int>(rank), static_cast<int>(leg), n});
  std::sort(passes.begin(), passes.end());
  return passes;
}

int earliest(const std::vector<Slots>& slots, const Placed& pass) {
  const auto rank = static_cast<std::size_t>(pass.rank);
  const auto leg = static_cast<std::size_t>(pass.leg);
  const Slots& here = slots[rank];
  int after = pass.n == 0 ? -1 : here[leg][pass.n - 1];
  if (pass.leg == kW) {
    std::vector<int> backwards;
    std::merge(here[kI1].begin(), here[kI1].end(), here[kI0].begin(), here[kI0].end(),
               std::back_inserter(backwards));
    return std::max(after, backwards[pass.n]) + 1;
  }
  const bool goes_down = pass.leg == kF0 || pass.leg == kI1;  // from rank to the next
  if (goes_down && rank > 0) after = std::max(after, slots[rank - 1][leg][pass.n]);
  if (!goes_down && rank + 1 < slots.size()) after = std::max(after, slots[rank + 1][leg][pass.n]);
  if (pass.leg != kF0) after = std::max(after, here[leg - 1][pass.n]);
  return after + 1;
}

std::vector<int> legs_by_slot(const Slots& slots) {
  std::vector<int> legs;
  for (std::size_t leg = 0; leg < slots.size(); ++leg) {
    for (const int at : slots[leg]) {
      const auto slot = static_cast<std::size_t>(at);
      if (slot >= legs.size()) legs.resize(slot + 1, kEmpty);
      legs[slot] = static_cast<int>(leg);
    }
  }
  return legs;
}

std::vector<Pass> passes_of(const Slots& slots, int ranks, int rank) {
  const int down = rank, up = 2 * ranks - 1 - rank;
  std::vector<std::pair<int, Pass>> placed;
  for (const int slot : slots[kF0]) placed.push_back({slot, {Pass::Kind::kForward, down}});
  for (const int slot : slots[kF1]) placed.push_back({slot, {Pass::Kind::kForward, up}});
  for (const int slot : slots[kI1]) placed.push_back({slot, {Pass::Kind::kBackwardInput, up}});
  for (const int slot : slots[kI0]) placed.push_back({slot, {Pass::Kind::kBackwardInput, down}});
  for (const auto& [slot, leg] : weights_in_gaps(slots))
    placed.push_back({slot, {Pass::Kind::kBackwardWeights, leg == kI1 ? up : down}});
  std::sort(placed.begin(), placed.end());
  std::vector<Pass> passes;
  passes.reserve(placed.size());
  for (const auto& [slot, pass] : placed) passes.push_back(pass);
  return passes;
}

Line::Line(const Slots& slots, bool fills) : fills_(fills), legs_(legs_by_slot(slots)) {
  State state;
  for (const int leg : legs_) states_.push_back(state = after(state, leg));
}

int Line::most_held() const {
  int most = 0;
  for (const State& state : states_) most = std::max(most, state.held);
  return most;
}

bool Line::move(int from, int to, int most) {
  const auto now = static_cast<std::size_t>(from), then = static_cast<std::size_t>(to);
  std::swap(legs_[now], legs_[then]);
  const bool fits = walk(then, now, most, false);
  if (fits)
    walk(then, now, most, true);
  else
    std::swap(legs_[now], legs_[then]);
  return fits;
}

Line::State Line::after(State before, int leg) const {
  if (leg == kF0 || leg == kF1) ++before.held;
  if (leg == kI1 || leg == kI0) ++before.waiting;
  if (leg == kW || (fills_ && leg == kEmpty && before.waiting > 0)) {
    --before.held;
    --before.waiting;
  }
  return before;
}

bool Line::walk(std::size_t begin, std::size_t last, int most, bool keep) {
  State state = begin == 0 ? State() : states_[begin - 1];
  for (std::size_t slot = begin; slot < legs_.size(); ++slot) {
    state = after(state, legs_[slot]);
    if (state.held > most) return false;
    if (slot >= last && state == states_[slot]) return true;  // as before from here on
    if (keep) states_[slot] = state;
  }
  return true;
}

}  // namespace
}  // namespace trireme::schedule
