// Copy points of a rank, by a walk through its actions along the simulated timeline.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/copy_points.h"

#include "rank_weights.h"
#include "shape.h"

#include "trireme/core/error.h"
#include "trireme/program/needs.h"
#include "trireme/simulate/ledger.h"

#include <algorithm>
#include <deque>

namespace trireme::simulate {
namespace {

using program::Action;
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

/// Walks through a rank's actions and counts the bytes on the device, as the runtime will.
class Walk {
 public:
  Walk(const program::Program& program, const Setting& setting, const Simulation& timeline,
       int rank)
      : ledger_(*setting.chain, scope_of(setting, program, rank, trains(program))),
        weights_(setting, program, rank),
        updates_(program::layer_updates(program.ranks[static_cast<std::size_t>(rank)])),
        update_window_(update_window(setting, updates_, rank)),
        base_(base_bytes(setting, program, rank)),
        budget_(setting.platform->ranks[static_cast<std::size_t>(rank)].memory),
        compute_(timeline, rank, Lane::kCompute),
        out_(timeline, rank, Lane::kOut),
        in_(timeline, rank, Lane::kIn) {}

  /// The copy point of the rank's action number `index`.
  CopyPoint step(const Action& action, std::size_t index);
  Bytes peak() const { return peak_; }
  /// Bytes without values of passes: at the end, or while the update uses streamed weights.
  Bytes idle() const { return base_ - idle_unused_; }

 private:
  void release_ended(Seconds now, CopyPoint& point);
  void begin_due(Seconds until, CopyPoint& point);
  void begin_needed(const Action& action, CopyPoint& point);
  void release(CopyPoint& point);
  void begin(CopyPoint& point);
  bool fits(Bytes more) const {
    return budget_ <= Bytes(0) || during_ + leaving_bytes_ - coming_bytes_ + more <= budget_;
  }
  bool is_leaving(const ValueKey& key) const;
  bool is_coming(const ValueKey& key) const;

  Ledger ledger_;
  RankWeights weights_;
  program::LayerUpdates updates_;
  Bytes update_window_;
  Bytes base_, budget_;
  LaneEvents compute_, out_, in_;
  std::deque<Pending> leaving_, coming_;
  Bytes leaving_bytes_, coming_bytes_;
  Bytes during_;  ///< bytes while the current action runs if every copy is instant; base included
  Seconds now_;
  Bytes peak_;
  Bytes idle_unused_;  ///< free bytes of the window for streamed weights while the last action ran
};

CopyPoint Walk::step(const Action& action, std::size_t index) {
  CopyPoint point;
  const Bytes held = ledger_.held();
  const Ledger::Outcome outcome = ledger_.apply(action);
  ensure(!outcome.fault, outcome.fault ? *outcome.fault : "");
  const auto [during, after] = outcome.effect;
  // A copy in counts from when it begins, not from its action on.
  const Bytes least_unused = weights_.after(index);
  const Bytes window_unused = updates_.has_state(index) ? Bytes(0) : update_window_;
  during_ = base_ - least_unused - window_unused + (program::is_copy_in(action.op) ? held : during);

  Seconds end = now_;
  if (const Event* const event = compute_.peek(); event != nullptr && event->action == action) {
    now_ = event->begin;
    end = event->end;
    compute_.take();
  }
  release_ended(now_, point);
  begin_due(end, point);
  begin_needed(action, point);
  while (!leaving_.empty() && !fits(Bytes(0))) release(point);
  idle_unused_ = std::min(least_unused, weights_.unused());
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
  return point;
}

void Walk::release_ended(Seconds now, CopyPoint& point) {
  while (!leaving_.empty() && leaving_.front().time <= now) release(point);
}

void Walk::begin_due(Seconds until, CopyPoint& point) {
  while (!coming_.empty() && coming_.front().time < until && fits(coming_.front().size) &&
         !is_leaving(coming_.front().key))
    begin(point);
}

void Walk::begin_needed(const Action& action, CopyPoint& point) {
  program::for_each_need(action, [&](const ValueKey& key) {
    while (is_coming(key)) {
      while (!leaving_.empty() && (!fits(coming_.front().size) || is_leaving(coming_.front().key)))
        release(point);
      begin(point);
    }
  });
}

void Walk::release(CopyPoint& point) {
  // Releases of one point come before its begins: a release that waits for a begin cannot be
  // expressed.
  leaving_bytes_ -= leaving_.front().size;
  leaving_.pop_front();
  ++point.releases;
}

void Walk::begin(CopyPoint& point) {
  coming_bytes_ -= coming_.front().size;
  coming_.pop_front();
  ++point.begins;
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

CopyPoints copy_points(const program::Program& program, const Setting& setting,
                       const Simulation& timeline, int rank) {
  Walk walk(program, setting, timeline, rank);
  CopyPoints points;
  const auto& actions = program.ranks.at(static_cast<std::size_t>(rank));
  points.before.reserve(actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i)
    points.before.push_back(walk.step(actions[i], i));
  points.idle = walk.idle();
  // A step may use less of the window for streamed weights than the last action does.
  points.peak =
      std::max(walk.peak(), points.idle + scope_of(setting, program, rank, trains(program)).step);
  points.offload_peak = timeline.ranks.at(static_cast<std::size_t>(rank)).offloaded.values;
  return points;
}

bool has_copies(const std::vector<Action>& actions) {
  return std::any_of(actions.begin(), actions.end(),
                     [](const Action& action) { return program::is_copy_out(action.op); });
}

}  // namespace trireme::simulate
