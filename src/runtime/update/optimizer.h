// The optimizer's step over one rank's parameters, and the learning rate over time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"
#include "state/state_layout.h"
#include "update/moved_state.h"

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/model/update.h"
#include "trireme/program/updates.h"
#include "trireme/tier/value_copies.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace trireme::runtime {

/// Learning rate of step 0, 1, ...: linear warm-up over `warmup_steps` (its first step takes 1 /
/// warmup_steps of the rate), then constant, or half a cosine down to `least_fraction` at the last
/// step (Loshchilov and Hutter 2017).
double learning_rate(const config::TrainSpec& spec, std::int64_t step);

/// Applies model::update() to a stage's parameters. Weight decay applies to those of two or more
/// dimensions (not to biases and norms).
///
/// Some of the state may be offloaded between updates, and layers may be updated separately
/// (overlapped optimizer step); the bits of an update do not depend on either.
class Optimizer {
 public:
  /// Keeps all of the state on the device.
  Optimizer(const config::OptimizerSpec& spec, Stage& stage);
  /// Offloads the state that `layout` (lay_out_state() of the stage's parameters) says, through
  /// `copies`, which nothing else uses and which has room for layout.room(); null if the layout has
  /// no parts. Masters that the stage does not keep are drawn layer by layer, with few layers on
  /// the host at a time.
  Optimizer(const config::OptimizerSpec& spec, Stage& stage, StateLayout layout,
            std::unique_ptr<tier::ValueCopies> copies);

  /// Begins one update of the layout's rows from the gradients, divided by `divisor` if that is
  /// defined, and updates the weights that stay on the device. step_layer() follows for every layer
  /// with streamed trained weights, ascending; layers with an overlapped update are left out. Uses
  /// that share another use's value are not stepped again. `waits` times the waits for offloaded
  /// state.
  void step(double rate, const at::Tensor& divisor = {}, const Waits& waits = {});
  /// Updates the layer's streamed weights: they and their gradients are on the device.
  void step_layer(int layer, const Waits& waits = {});

  /// To be called before a program runs: `updates` are its overlapped updates of layers with
  /// streamed trained weights. Updates in the backward use `rate`; updates in the forward use what
  /// the last step() was called with.
  void announce(const program::LayerUpdates& updates, double rate);
  /// Starts to copy in the state of those layers; none if there is nothing to update.
  void bring_state();
  /// Waits until all of it was copied out again.
  void await_state();
  /// Runs part `part` of `parts` of the layer's update, in the order that was announced.
  void update(int layer, int part, int parts, const Waits& waits = {});
  /// Layers that the last step() left to updates in the next forward, and that are not updated yet.
  const std::set<int>& pending() const { return pending_; }

  /// Bytes of masters and moments on the device, and in the offload tier.
  Bytes state_bytes() const;
  Bytes offloaded_bytes() const;
  /// Traffic of offloaded state since the last call; waits for all copies.
  MovedState::Moved take_moved();

  /// Tensors of a parameter that an update changes: its trained value (the master) and its moments.
  enum class StateTensor { kValue, kFirst, kSecond };

  /// Reads and writes values and moments between two steps, one at a time. Offloaded state is
  /// copied in by parts, and streamed weights by layers, the last of which is copied back at the
  /// end: access tensors that are next to each other one after the other.
  class Access {
   public:
    explicit Access(Optimizer& optimizer);
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

    /// Whether stage.parameters()[i] has this tensor: a use that shares another's value and a
    /// frozen parameter have the value alone; SGD has no second moments, and no moments at all
    /// without momentum.
    bool has(std::size_t i, StateTensor which) const;
    /// Its numbers on this rank: all, or those of the layout's row where other replicas have the
    /// rest.
    Row row(std::size_t i, StateTensor which) const;
    /// Those numbers: in the parameter's shape, or in one dimension where they are not all.
    /// Offloaded ones are a copy in host memory, which no budget counts.
    at::Tensor read(std::size_t i, StateTensor which);
    /// Calls `change` with a tensor of all numbers, which it overwrites (the held tensor itself
    /// where possible), and stores those that belong on this rank.
    void change(std::size_t i, StateTensor which,
                const std::function<void(const at::Tensor&)>& change);

   private:
    bool is_offloaded(std::size_t i, StateTensor which) const;
    /// Whether other replicas have numbers of it that this rank does not.
    bool has_others(std::size_t i, StateTensor which) const;
    /// All of it that is on the device; not for streamed weights.
    at::Tensor held(std::size_t i, StateTensor which) const;
    /// Sets the weight to the rounded value.
    void change_weight(const StageParameter& parameter, const at::Tensor& value);
    /// Whether it is a weight that is streamed (there is no separate master).
    bool is_streamed(std::size_t i, StateTensor which) const;
    /// Index of the use that holds the value of use `i`.
    std::size_t holder(std::size_t i) const;
    /// Calls `visit` with each piece of it and the piece's first number: what is held on the
    /// device, then every offloaded slice, as a view of its part.
    void for_each_piece(std::size_t i, StateTensor which,
                        const std::function<void(const at::Tensor&, std::int64_t)>& visit);

    Optimizer& optimizer_;
  };

  /// Continues as after `steps` steps (0: begins), from the current parameters and moments.
  void resume_after(std::int64_t steps);

 private:
  /// Groups of parameters, or slices, with the same weight decay.
  struct Groups {
    std::array<std::optional<model::UpdateGroup>, 2> by_decay;
  };
  /// State of a parameter's numbers that stay on the device.
  struct HeldState {
    at::Tensor master;  ///< only of a partial row; the parameter then has no other one
    at::Tensor first, second;
  };

  /// Fills in masters during construction.
  class Filling;

  /// Whether the parameter has a master that is not its weight, on any tier.
  bool has_master(std::size_t i) const;
  void hold(std::size_t i);
  /// Begins a pass over all groups except those of layers `but`.
  void begin_pass(const std::set<int>& but);
  /// Calls `use` with the layer's groups (0: those that stay on the device), and with its offloaded
  /// parts as they are copied in. All layers of a pass take their turns, ascending.
  void pass(int layer, const std::function<void(Groups&)>& use, const Waits& waits = {});
  /// State parts of these layers with streamed weights, in that order.
  std::vector<std::size_t> parts_of(const std::vector<int>& layers) const;
  /// Whether the layer has trained weights that are not their own masters.
  bool has_masters(int layer) const;
  void offload(const StatePart& part, Filling& filling);
  /// Offset in the slice's part of its numbers of that tensor.
  std::int64_t offset(const StateSlice& slice, StateTensor which) const;
  void add(Groups& groups, std::size_t i, const model::Updated& updated) const;
  void update(Groups& groups);
  static void round_weights(Groups& groups);

  config::OptimizerSpec spec_;
  Stage& stage_;
  StateLayout layout_;
  std::vector<HeldState> held_of_;  ///< by parameter
  Groups held_;
  std::map<int, Groups> streamed_;     ///< by layer: those with streamed trained weights
  std::unique_ptr<MovedState> moved_;  ///< null: no state is offloaded
  std::vector<Groups> offloaded_;      ///< by part
  std::map<int, std::vector<std::size_t>> parts_of_;  ///< by layer
  program::LayerUpdates own_;                         ///< overlapped updates of the current runs
  std::set<int> pending_;
  std::set<int> left_;  ///< layers whose turn in the pass has not come
  // The current update.
  std::int64_t steps_ = 0;  ///< its number
  double rate_ = 0;
  at::Tensor divisor_;
};

}  // namespace trireme::runtime
