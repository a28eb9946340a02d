// The optimizer's step over one rank's parameters, and the learning rate over time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/model/update.h"
#include "trireme/program/updates.h"
#include "trireme/runtime/moved_state.h"
#include "trireme/runtime/stage.h"
#include "trireme/runtime/state_layout.h"
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

/// model::update() of a stage's parameters. Weight decay applies to those of two or more dimensions
/// (not to biases and norms).
///
/// Some of the state may be in the offload tier between updates, and layers may be updated apart
/// from the others; the bits of an update do not depend on that.
class Optimizer {
 public:
  /// With all of the state on the device.
  Optimizer(const config::OptimizerSpec& spec, Stage& stage);
  /// With what `layout` says (lay_out_state() of the stage's parameters) in the offload tier that
  /// `copies`, which nobody else uses, has room for: layout.room(); null without parts. Masters
  /// that the stage does not keep are drawn layer by layer, and few layers are on the host at a
  /// time.
  Optimizer(const config::OptimizerSpec& spec, Stage& stage, StateLayout layout,
            std::unique_ptr<tier::ValueCopies> copies);

  /// Calls on the way through an update; none may be missing but all.
  struct Way {
    /// Of each layer whose trained weights are streamed, in their order: before its weights and
    /// gradients have to be here.
    std::function<void(int layer)> reach;
    /// Of each of them, before the next one is reached, and in the end of layer 0, which stands for
    /// what stays: all of its numbers are updated that are updated here.
    std::function<void(int layer)> updated;
    /// For what of the state is away.
    Waits waits;
  };

  /// One update of the layout's rows from the gradients, divided by `divisor` where that is
  /// defined. Uses that share another use's value are not stepped again; layers with updates of
  /// their own are left out.
  void step(double rate, const at::Tensor& divisor = {}, const Way& way = {});

  /// A run of a program begins whose layers, of which trained weights are streamed, have these
  /// updates of their own: with that rate if they are behind backwards, with what the last step()
  /// was called with if they are before forwards.
  void announce(const program::LayerUpdates& updates, double rate);
  /// What they need begins to come. None comes where there is nothing to update.
  void bring_state();
  /// One of `parts` parts of the layer's update, in the order that was announced.
  void update(int layer, int part, int parts, const Waits& waits = {});
  /// Layers that still lack what the last step() left out: those with updates before forwards.
  const std::set<int>& pending() const { return pending_; }

  /// Masters and moments that are on the device, and in the offload tier.
  Bytes state_bytes() const;
  Bytes away_bytes() const;
  /// What of those moved since the last call; waits until nothing does.
  MovedState::Moved take_moved();

  /// What an update changes of a parameter: the value that is trained, its moments.
  enum class Part { kValue, kFirst, kSecond };

  /// A look at values and moments between two steps, one at a time. Those that are away come in
  /// parts, and weights that are streamed layer by layer, of which the last one goes back in the
  /// end: what stands next to each other is best looked at one after the other.
  class Access {
   public:
    explicit Access(Optimizer& optimizer);
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

    /// Whether stage.parameters()[i] has such a part: a use that shares another's value has that
    /// alone, as has a frozen parameter; SGD has no second moments, and none at all without
    /// momentum.
    bool has(std::size_t i, Part part) const;
    /// What of it is here: all numbers, or those of the layout's row where others have the rest.
    Row row(std::size_t i, Part part) const;
    /// That: in the parameter's shape, or in one dimension where it is not all; of what is away a
    /// copy in host memory, which counts as nobody's.
    at::Tensor read(std::size_t i, Part part);
    /// Takes up what `change` writes into the tensor of all numbers that it is called with: what is
    /// here, where that may be.
    void change(std::size_t i, Part part, const std::function<void(const at::Tensor&)>& change);

   private:
    bool is_away(std::size_t i, Part part) const;
    /// Whether other replicas have numbers of it that are not here.
    bool has_others(std::size_t i, Part part) const;
    /// Of what is not streamed, all that is on the device.
    at::Tensor held(std::size_t i, Part part) const;
    /// The weight becomes the value's rounding.
    void change_weight(const StageParameter& parameter, const at::Tensor& value);
    /// Whether it is in a weight that is streamed.
    bool is_streamed(std::size_t i, Part part) const;
    /// The use that holds what `i` shares.
    std::size_t holder(std::size_t i) const;
    /// Calls `visit` with what of it is here and held on the device, then with every slice that is
    /// away, as it stands in its part; and with the first number of each.
    void for_each_piece(std::size_t i, Part part,
                        const std::function<void(const at::Tensor&, std::int64_t)>& visit);

    Optimizer& optimizer_;
  };

  /// Goes on as after `steps` steps (0: begins), from the parameters and moments that are there
  /// now.
  void resume_after(std::int64_t steps);

 private:
  /// Groups of parameters, or slices, with the same weight decay.
  struct Groups {
    std::array<std::optional<model::UpdateGroup>, 2> by_decay;
  };
  /// Of what of a parameter's row stays on the device.
  struct State {
    at::Tensor master;  ///< where that is not the whole parameter, which then has no other one
    at::Tensor first, second;
  };

  /// Where masters come from while it is made.
  class Filling;

  /// Whether the parameter's numbers have masters that are not its weight, somewhere.
  bool has_master(std::size_t i) const;
  void hold(std::size_t i);
  /// Calls `use` with all groups but those of some layers: of what stays, then layer by layer of
  /// what is streamed; what is away comes for it.
  void for_each(const std::set<int>& but, const Way& way, const std::function<void(Groups&)>& use);
  /// Parts of these layers, whose weights are streamed, in that order.
  std::vector<std::size_t> parts_of(const std::vector<int>& layers) const;
  /// Whether the layer has trained weights that are not their own masters.
  bool has_masters(int layer) const;
  void send_away(const StatePart& part, Filling& filling);
  /// Where in the part of a slice its numbers of that kind begin.
  std::int64_t offset(const StateSlice& slice, Part part) const;
  void add(Groups& groups, std::size_t i, const model::Updated& updated) const;
  void update(Groups& groups);
  static void round_weights(Groups& groups);

  config::OptimizerSpec spec_;
  Stage& stage_;
  StateLayout layout_;
  std::vector<State> held_of_;  ///< by parameter
  Groups held_;
  std::map<int, Groups> streamed_;     ///< the same of layers whose trained weights are streamed
  std::unique_ptr<MovedState> moved_;  ///< null: nothing is away
  std::vector<Groups> away_;           ///< by part
  std::map<int, std::vector<std::size_t>> parts_of_;  ///< by layer
  program::LayerUpdates own_;                         ///< of the runs now
  std::set<int> pending_;
  // Of the update at hand.
  std::int64_t steps_ = 0;  ///< its number
  double rate_ = 0;
  at::Tensor divisor_;
};

}  // namespace trireme::runtime
