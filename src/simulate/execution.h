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
    Ledger::Scope scope;  ///< its last layer must be set
    CopyLanes lanes;
    Lanes::Record record;
    Bytes base;          ///< held throughout in addition to the ledger's values
    double speed = 1.0;  ///< a layer takes its time / speed
    chain::Power power = {};
    const std::vector<LayerClocks>* clocks = nullptr;  ///< as in Setting; none: all usual
    Seconds update{0};            ///< time to update the rank's layers, at speed 1
    Seconds reduce{0};            ///< time to sum their gradients over replicas
    Seconds share{0};             ///< time to exchange their updated weights
    Bytes optimizer{};            ///< optimizer state of the same layers
    Bytes offloaded_optimizer{};  ///< offloaded part of it, as in Setting
    OffloadRoom outside{};        ///< in the offload tier throughout
    RankWeights weights = {};
    program::LayerUpdates updates = {};
    Bytes update_window = {};  ///< part of `base`: for the state of `updates`
  };
  Execution(const chain::Chain& chain, const Setup& setup);

  /// Runs the rank's action number `index` once its values are on the device. Returns why it cannot
  /// run.
  std::optional<std::string> run(const program::Action& action, std::size_t index);
  /// Time passes until `time`, if it is later than now.
  void wait_until(Seconds time) {
    count_moves();
    lanes_.wait_until(time);
  }
  /// The actions have ended.
  void end() { wait_until(now()); }

  Seconds now() const { return lanes_.now(); }
  Seconds busy() const { return busy_; }
  /// Waits for values and weights being copied in, for room, and for copies of optimizer state.
  Seconds wait_for_copies() const { return lanes_.waited() + state_wait_ + weights_wait_; }
  /// Waits for gradient sums and updated weights of other replicas.
  Seconds wait_for_replicas() const { return replicas_wait_; }
  Seconds copies_out() const { return lanes_.busy_out() + state_out_; }
  Seconds copies_in() const { return lanes_.busy_in() + state_in_; }
  Seconds recompute() const { return recompute_; }
  /// Energy of passes and updates; the part of recomputed forwards.
  Joules compute_energy() const { return compute_energy_; }
  Joules recompute_energy() const { return recompute_energy_; }
  /// Duration and end of the action that ran last; whether it was a recomputed forward.
  Seconds last_duration() const { return last_duration_; }
  Seconds last_end() const { return last_end_; }
  bool last_again() const { return last_again_; }
  /// Bytes while the last action ran if all copies were instant: a lower bound for any timing, base
  /// included.
  Bytes at_once() const { return at_once_; }
  /// The most of it so far.
  Bytes most_at_once() const { return most_at_once_; }
  /// Bytes in the offload tier now: a prefetched value keeps its place there until an action needs
  /// it.
  Bytes offloaded() const { return ledger_.offloaded() + returning_bytes_ + setup_.outside.all(); }
  /// The most of it so far.
  const OffloadRoom& most_offload() const { return most_offload_; }
  /// Bytes copied in for an update or a use.
  Bytes state_moved() const { return state_moved_; }
  Bytes weights_moved() const { return weights_moved_; }
  const Lanes& lanes() const { return lanes_; }
  const Ledger& ledger() const { return ledger_; }
  const RankWeights& weights() const { return setup_.weights; }
  const Coverage& forwards() const { return forwards_; }

 private:
  void move_weights(const program::Action& action);
  /// Whether the action only waits, or begins copies, outside the passes; then it is done.
  bool await(const program::Action& action);
  /// Runs the action, whose effect on the values of passes is known.
  void run_pass(const program::Action& action, const Ledger::Effect& effect);
  void take_time(const program::Action& action);
  Seconds backward_time(const program::Action& action) const;
  /// The clock of a layer's first forward, or of its backward and recomputed forwards.
  ClockFactors clock_of(int layer, bool is_first_forward) const;
  /// Energy of the pass that takes last_duration_: its part of `known`, which a pass of the layer
  /// takes in `whole` at speed 1, or where that is 0 by the power model.
  Joules pass_energy(Joules known, Seconds whole) const;
  /// Compute of that time and energy; without the latter by the power model.
  void work(Seconds time, Joules energy);
  void work(Seconds time) { work(time, setup_.power.busy * time); }
  void take_update_time();
  ComingState state_of_updates() const;
  /// An update of a single layer, or its share of one.
  void update(const program::Action& action, Bytes held);
  /// The update of a layer's streamed weights at the end of the step.
  void step(int layer, Bytes during, Bytes after);
  void await_values(const program::Action& action);
  void leave_offload_tier(const program::Action& action);
  void await_weights(int layer, bool gradients);
  /// Compute waits for copies of weights or state.
  void wait_for_copy(Seconds time);
  /// Offloaded optimizer state of a layer; all layers have an equal share offloaded.
  Bytes offloaded_state(int layer) const;
  /// The bytes held once a run of moves, which take no time, is complete.
  void count_moves() {
    if (std::exchange(moved_, false)) lanes_.set(index_, base() + ledger_.held());
  }
  /// Bytes held throughout, with streamed weights and windows counted as they are used now.
  Bytes base() const {
    return setup_.base - setup_.weights.unused() - (has_state_ ? Bytes(0) : setup_.update_window);
  }

  const chain::Chain& chain_;
  Setup setup_;
  std::size_t index_ = 0;   ///< index of the current action
  bool moved_ = false;      ///< the last actions moved weights; their bytes are not counted yet
  bool has_state_ = false;  ///< state of overlapped updates is being copied
  Ledger ledger_;
  Lanes lanes_;
  ComingState coming_state_;
  Seconds busy_, recompute_, last_duration_, last_end_, last_wait_;
  Joules compute_energy_, recompute_energy_;
  Seconds state_out_, state_in_, state_wait_, weights_wait_, replicas_wait_;
  Bytes state_moved_, weights_moved_;
  bool last_again_ = false;
  Bytes at_once_, most_at_once_, returning_bytes_;
  OffloadRoom most_offload_;
  std::map<CopyKey, Bytes> returning_;  ///< prefetched, and not needed yet
  Coverage forwards_;
  /// Ends of copies in of layers' weights and gradients (second); then the end of the last copy
  /// out.
  std::map<std::pair<int, bool>, Seconds> arrivals_;
  Seconds weights_left_;
};

}  // namespace trireme::simulate
