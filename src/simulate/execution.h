// One rank's actions on the memory model and in time: what replay and the simulator share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "coming_state.h"
#include "coverage.h"
#include "lanes.h"
#include "rank_weights.h"

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"
#include "trireme/program/updates.h"
#include "trireme/simulate/ledger.h"
#include "trireme/simulate/simulate.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::simulate {

class Execution {
 public:
  struct Setup {
    Ledger::Scope scope;  ///< with its last layer given
    CopyLanes lanes;
    Lanes::Record record;
    Bytes base;              ///< held all the time beside the ledger's values
    double speed = 1.0;      ///< a layer takes its time / speed
    Seconds update{0};       ///< of the rank's own layers, at speed 1
    Seconds reduce{0};       ///< their gradients are added up over replicas
    Seconds share{0};        ///< their updated weights are handed round
    Bytes optimizer{};       ///< state of the same layers
    Bytes optimizer_away{};  ///< of it, as in Setting
    OffloadRoom outside{};   ///< in the offload tier all the time
    RankWeights weights = {};
    program::LayerUpdates updates = {};
    Bytes update_window = {};  ///< of `base`, for state that comes for them
  };
  Execution(const chain::Chain& chain, const Setup& setup);

  /// Runs the rank's action number `index` once its values are there. Answers why it may not run.
  std::optional<std::string> run(const program::Action& action, std::size_t index);
  /// Time passes until then, if it is ahead.
  void wait_until(Seconds time) { lanes_.wait_until(time); }

  Seconds now() const { return lanes_.now(); }
  Seconds busy() const { return busy_; }
  /// For values and weights on their way in, for room, and for optimizer state on its way.
  Seconds wait_for_copies() const { return lanes_.waited() + state_wait_ + weights_wait_; }
  /// For their sums of gradients and their updated weights.
  Seconds wait_for_replicas() const { return replicas_wait_; }
  Seconds copies_out() const { return lanes_.busy_out() + state_out_; }
  Seconds copies_in() const { return lanes_.busy_in() + state_in_; }
  Seconds recompute() const { return recompute_; }
  /// Of the action that ran last; and whether it was a forward beyond the first.
  Seconds last_duration() const { return last_duration_; }
  Seconds last_end() const { return last_end_; }
  bool last_again() const { return last_again_; }
  /// Bytes while the last action ran if all copies were instant: what no timing can lessen or wait
  /// for, base inside.
  Bytes at_once() const { return at_once_; }
  /// The most of it so far.
  Bytes most_at_once() const { return most_at_once_; }
  /// In the offload tier now: what comes back keeps its place there until an action needs it.
  Bytes offloaded() const { return ledger_.offloaded() + returning_bytes_ + setup_.outside.all(); }
  /// The most of it so far.
  const OffloadRoom& most_offload() const { return most_offload_; }
  /// Of what comes for an update or a use and goes again.
  Bytes state_moved() const { return state_moved_; }
  Bytes weights_moved() const { return weights_moved_; }
  const Lanes& lanes() const { return lanes_; }
  const Ledger& ledger() const { return ledger_; }
  const Coverage& forwards() const { return forwards_; }

 private:
  void take_time(const program::Action& action);
  Seconds backward_time(const program::Action& action) const;
  void take_update_time();
  ComingState state_of_updates() const;
  /// An update of a layer alone, or its share of one.
  void update(const program::Action& action, Bytes held);
  void await_values(const program::Action& action);
  void leave_offload_tier(const program::Action& action);
  /// Compute runs for `duration`, but for what takes its time layer after layer.
  void compute(const program::Action& action, Bytes during, Bytes after);
  void use_within(const RankWeights::Use& use, Bytes held, bool updates);
  void await_weights();
  void await_weights(int layer, bool gradients);
  void wait_for_weights(Seconds time);
  void copy_weights(const std::vector<program::WeightsMove>& moves);
  /// Of a layer's optimizer state, where all have an equal share of it away.
  Bytes state_away(int layer) const;
  void settle_weights();
  /// What is there all the time, streamed weights and state on its way as they are now.
  Bytes base() const {
    const bool has_state = setup_.updates.has_state(index_);
    return setup_.base - setup_.weights.unused() - (has_state ? Bytes(0) : setup_.update_window);
  }

  const chain::Chain& chain_;
  Setup setup_;
  std::size_t index_ = 0;  ///< of the action at hand
  Ledger ledger_;
  Lanes lanes_;
  ComingState coming_state_;
  Seconds busy_, recompute_, last_duration_, last_end_, last_wait_;
  Seconds state_out_, state_in_, state_wait_, weights_wait_, replicas_wait_;
  Bytes state_moved_, weights_moved_;
  bool last_again_ = false;
  Bytes at_once_, most_at_once_, returning_bytes_;
  OffloadRoom most_offload_;
  std::map<CopyKey, Bytes> returning_;  ///< named, and not needed yet
  Coverage forwards_;
  /// Of layers' weights and gradients (second) that have begun to come; when the last copy out of
  /// some ends.
  std::map<std::pair<int, bool>, Seconds> arrivals_;
  Seconds weights_left_;
};

}  // namespace trireme::simulate
