// Streamed weights of one rank's layers: what the device holds of them, action by action.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/action.h"
#include "trireme/simulate/validate.h"

#include <optional>
#include <string>
#include <vector>

namespace trireme::simulate {

class RankWeights {
 public:
  /// A rank without streamed weights.
  RankWeights() = default;
  RankWeights(const Setting& setting, const program::Program& program, int rank);

  /// Whether the rank streams any.
  bool are_there() const { return !layers_.empty(); }
  /// Does what the action says of the streamed weights, or says why it cannot: it moves what is not
  /// there, frees what was changed, needs more than the window, or computes with weights that are
  /// not on the device.
  std::optional<std::string> apply(const program::Action& action);

  /// Bytes that the action, which moves weights or gradients, copies or frees.
  Bytes size(const program::Action& action) const;
  /// Bytes of the window, which is among the static bytes, that are free now.
  Bytes unused() const { return window_ - held_ - leaving_; }

  /// Why the next run could not begin: the device does not have what it had in the beginning.
  std::optional<std::string> not_as_begun() const;

  /// Layers with a `step` of their own, ascending.
  const std::vector<int>& stepped() const { return stepped_; }

 private:
  struct State {
    bool is_here = false;     ///< on the device
    bool is_needed = false;   ///< the offload tier does not have it
    bool at_begin = false;    ///< on the device when the actions begin
    bool is_dropped = false;  ///< what was there at the beginning was freed without a copy out
    bool was_moved = false;
  };
  struct Layer {
    chain::OffloadWeights size;
    bool is_streamed = false;
    State weights = {}, gradients = {};
  };
  bool is_streamed(int layer) const {
    return static_cast<std::size_t>(layer) < layers_.size() &&
           layers_[static_cast<std::size_t>(layer)].is_streamed;
  }
  std::optional<std::string> move(const program::Action& action);
  std::optional<std::string> use(const program::Action& action);

  std::vector<Layer> layers_;  ///< by number; empty where none is streamed
  std::vector<int> stepped_;
  Bytes window_, held_, leaving_;
};

}  // namespace trireme::simulate
