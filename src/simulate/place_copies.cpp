// Places the copies of a rank by a walk through its actions along the simulated timeline.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/place_copies.h"

#include "rank_weights.h"
#include "shape.h"

#include "trireme/core/error.h"
#include "trireme/program/needs.h"
#include "trireme/program/updates.h"
#include "trireme/simulate/ledger.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

namespace trireme::simulate {
namespace {

using program::Action;
using program::Op;
using program::ValueKey;

/// A copy out that has not ended, or a copy in that has not begun.
struct Pending {
  ValueKey key;
  Bytes size;
  Seconds time;  ///< simulated end of a copy out or begin of a copy in
};

/// One rank's events of a lane, in their order.
class LaneEvents {
 public:
  LaneEvents(const Simulation& timeline, int rank, Lane lane) {
    for (const Event& event : timeline.events) {
      if (event.rank == rank && event.lane == lane) events_.push_back(&event);
    }
  }
  const Event* peek() const { return next_ == events_.size() ? nullptr : events_[next_]; }
  const Event* take() {
    const Event* const event = peek();
    ++next_;
    return event;
  }

 private:
  std::vector<const Event*> events_;
  std::size_t next_ = 0;
};

/// Walks through a rank's actions, counts the bytes on the device as the runtime will, and writes
/// the actions with their copies.
class Walk {
 public:
  Walk(const program::Program& program, const Setting& setting, const Simulation& timeline,
       int rank)
      : ledger_(*setting.chain, scope_of(setting, program, rank, trains(program))),
        weights_(setting, program, rank),
        update_window_(update_window(
            setting, program::layer_updates(program.ranks[static_cast<std::size_t>(rank)]), rank)),
        base_(base_bytes(setting, program, rank)),
        budget_(setting.platform->ranks[static_cast<std::size_t>(rank)].memory),
        compute_(timeline, rank, Lane::kCompute),
        out_(timeline, rank, Lane::kOut),
        in_(timeline, rank, Lane::kIn) {}

  void step(const Action& action);
  /// Bytes without values of passes: at the end, or while the update uses streamed weights.
  Bytes idle() const { return base_ - std::min(idle_unused_, weights_.unused()); }
  Bytes peak() const { return peak_; }
  std::vector<Action> take_written();

 private:
  /// Actions around the next one, in this order: releases, moves of weights, copies in, awaits.
  struct Around {
    std::vector<Action> releases, moves, begins, awaits;
  };

  void count(const Action& action);
  void release_ended(Seconds now);
  void begin_due(Seconds until);
  void begin_needed(const Action& action);
  void await_needed(const Action& action);
  void release();
  void begin();
  void write_around();
  bool fits(Bytes more) const {
    return budget_ <= Bytes(0) || during_ + leaving_bytes_ - coming_bytes_ + more <= budget_;
  }
  bool is_leaving(const ValueKey& key) const;
  bool is_coming(const ValueKey& key) const;

  Ledger ledger_;
  RankWeights weights_;
  Bytes update_window_;
  Bytes base_, budget_;
  LaneEvents compute_, out_, in_;
  std::deque<Pending> leaving_, coming_;
  std::set<ValueKey> copied_in_;  ///< not awaited yet
  Bytes leaving_bytes_, coming_bytes_;
  Bytes during_;  ///< bytes while the current action runs if every copy is instant; base included
  Seconds now_;
  Bytes peak_;
  bool has_state_ = false;  ///< state of overlapped updates is being copied
  Bytes idle_unused_;  ///< least free bytes of the window for streamed weights in the last action,
                       ///< or in the whole update at the end of the step
  Around around_;
  std::vector<Action> written_;
};

/// Whether the action is among the moves before another one.
bool is_move(Op op) {
  return program::moves_weights(op) || op == Op::kAwaitWeights || op == Op::kAwaitGradients;
}

void Walk::step(const Action& action) {
  weights_.apply(action);
  if (is_move(action.op)) {
    around_.moves.push_back(action);
    return;
  }
  count(action);
  write_around();
  written_.push_back(action);
}

void Walk::count(const Action& action) {
  if (action.op == Op::kStateIn) has_state_ = true;
  const Bytes held = ledger_.held();
  const Ledger::Outcome outcome = ledger_.apply(action);
  ensure(!outcome.fault, outcome.fault ? *outcome.fault : "");
  const auto [during, after] = outcome.effect;
  // A copy in counts from when it begins, not from its action on.
  const Bytes window_unused = has_state_ ? Bytes(0) : update_window_;
  during_ =
      base_ - weights_.unused() - window_unused + (program::is_copy_in(action.op) ? held : during);

  Seconds end = now_;
  if (const Event* const event = compute_.peek(); event != nullptr && event->action == action) {
    now_ = event->begin;
    end = event->end;
    compute_.take();
  }
  release_ended(now_);
  begin_due(end);
  begin_needed(action);
  await_needed(action);
  while (!leaving_.empty() && !fits(Bytes(0))) release();
  const bool goes_on = action.op == Op::kStep && action.layer > 0;
  idle_unused_ = goes_on ? std::min(idle_unused_, weights_.unused()) : weights_.unused();
  peak_ = std::max(peak_, during_ + leaving_bytes_ - coming_bytes_);
  now_ = end;

  if (program::is_copy_out(action.op)) {
    const Event* const event = out_.take();
    ensure(event != nullptr, "a copy out is in the timeline");
    leaving_.push_back({program::moved_value(action), during - after, event->end});
    leaving_bytes_ += during - after;
  } else if (program::is_copy_in(action.op)) {
    const Event* const event = in_.take();
    ensure(event != nullptr, "a copy in is in the timeline");
    coming_.push_back({program::moved_value(action), after - held, event->begin});
    coming_bytes_ += after - held;
  }
  if (action.op == Op::kAwaitState) has_state_ = false;
}

void Walk::write_around() {
  for (const std::vector<Action>* const part :
       {&around_.releases, &around_.moves, &around_.begins, &around_.awaits})
    written_.insert(written_.end(), part->begin(), part->end());
  around_ = {};
}

std::vector<Action> Walk::take_written() {
  write_around();
  return std::move(written_);
}

void Walk::release_ended(Seconds now) {
  while (!leaving_.empty() && leaving_.front().time <= now) release();
}

void Walk::begin_due(Seconds until) {
  while (!coming_.empty() && coming_.front().time < until && fits(coming_.front().size) &&
         !is_leaving(coming_.front().key))
    begin();
}

void Walk::begin_needed(const Action& action) {
  program::for_each_need(action, [&](const ValueKey& key) {
    while (is_coming(key)) {
      while (!leaving_.empty() && (!fits(coming_.front().size) || is_leaving(coming_.front().key)))
        release();
      begin();
    }
  });
}

void Walk::await_needed(const Action& action) {
  program::for_each_need(action, [&](const ValueKey& key) {
    if (copied_in_.erase(key) > 0)
      around_.awaits.push_back(
          {key.tape ? Op::kAwaitTape : Op::kAwait, key.layer, key.micro_batch});
  });
}

// All releases stand before all copies in: a release that waits for a copy in cannot be expressed.
void Walk::release() {
  const auto& [key, size, time] = leaving_.front();
  around_.releases.push_back(
      {key.tape ? Op::kReleaseTape : Op::kRelease, key.layer, key.micro_batch});
  leaving_bytes_ -= size;
  leaving_.pop_front();
}

void Walk::begin() {
  const auto& [key, size, time] = coming_.front();
  around_.begins.push_back({key.tape ? Op::kCopyInTape : Op::kCopyIn, key.layer, key.micro_batch});
  copied_in_.insert(key);
  coming_bytes_ -= size;
  coming_.pop_front();
}

bool Walk::is_leaving(const ValueKey& key) const {
  return std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const Pending& copy) { return copy.key == key; });
}

bool Walk::is_coming(const ValueKey& key) const {
  return std::any_of(coming_.begin(), coming_.end(),
                     [&](const Pending& copy) { return copy.key == key; });
}

}  // namespace

PlacedCopies place_copies(const program::Program& program, const Setting& setting,
                          const Simulation& timeline) {
  PlacedCopies placed{.program = program, .ranks = {}};
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
    Walk walk(program, setting, timeline, rank);
    const auto place = static_cast<std::size_t>(rank);
    for (const Action& action : program.ranks[place]) walk.step(action);
    PlacedBytes bytes;
    bytes.idle = walk.idle();
    // A step may use less of the window for streamed weights than the last action does.
    bytes.peak =
        std::max(walk.peak(), bytes.idle + scope_of(setting, program, rank, trains(program)).step);
    bytes.offload_peak = timeline.ranks.at(place).offloaded.values;
    placed.program.ranks[place] = walk.take_written();
    placed.ranks.push_back(bytes);
  }
  return placed;
}

bool has_copies(const std::vector<Action>& actions) {
  return std::any_of(actions.begin(), actions.end(),
                     [](const Action& action) { return program::is_copy_out(action.op); });
}

}  // namespace trireme::simulate
