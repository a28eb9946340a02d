// Gradient reduction at the end of a step: over the uses of tied weights and over replicas, and the
// global norm.
//
// The order is fixed, so that sums have the same bits for every split: uses in chain order, then
// replicas in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"
#include "update/gradient_norm.h"
#include "update/shards.h"

#include "trireme/comm/channel.h"
#include "trireme/runtime/position.h"

#include <map>
#include <string>
#include <vector>

namespace trireme::runtime {

class Reducer {
 public:
  /// Who updates what: every replica all of its parameters, or each a shard of them (ZeRO-1).
  enum class Updates { kEverywhere, kDivided };

  /// Collective: finds out where the uses of tied weights are. Throws InputError where they do not
  /// begin with the same values.
  Reducer(comm::Channel& channel, Position position, Stage& stage,
          Updates updates = Updates::kEverywhere);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Collective: sums over ties, then over replicas. Afterwards every use holds the weight's whole
  /// gradient, except streamed ones and, with shards, what other replicas update.
  void reduce();
  /// Collective over replicas: the same for a layer whose streamed gradients are on the device.
  void reduce(int streamed_layer);
  bool has_replicas() const { return position_.replicas > 1; }

  /// Which numbers of each parameter this rank updates, and how they reach the other replicas.
  Shards& shards() { return shards_; }
  /// The norm over all parameters of the chain, a tied weight counted once.
  GradientNorm& norm() { return norm_; }

  /// Whether this use is its weight's first in the whole chain: the one that is counted and saved.
  bool is_first_use(const StageParameter& parameter) const;

 private:
  struct Use {
    int layer = 0;
    int index = 0;
    int rank = 0;  ///< world rank
  };
  std::map<std::string, std::vector<Use>> learn_ties() const;
  std::vector<bool> first_uses() const;
  void reduce_tie(const std::string& tie, const std::vector<Use>& uses);

  comm::Channel& channel_;
  Position position_;
  Stage& stage_;
  std::map<std::string, std::vector<Use>> ties_;  ///< uses in chain order
  Shards shards_;
  GradientNorm norm_;
};

}  // namespace trireme::runtime
