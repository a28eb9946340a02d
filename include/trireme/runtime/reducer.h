// The end of a step's gradients: uses of tied weights added up, replicas added up, the global norm.
//
// Order is fixed, so that sums have the same bits for every split: uses in chain order, then
// replicas in their order; the norm is one number per parameter, summed in chain order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/runtime/stage.h"

#include <map>
#include <string>
#include <vector>

namespace trireme::runtime {

/// Where this rank stands among the ranks of the job. Ranks of one replica are neighbours.
struct Position {
  int replicas = 1;
  int stages = 1;  ///< ranks per pipeline
  int replica = 0;
  int pipeline_rank = 0;

  static Position of(int world_rank, int replicas, int stages);
  /// World ranks of this rank's pipeline, and of its counterparts in all replicas, in order.
  std::vector<int> pipeline_group() const;
  std::vector<int> replica_group() const;
};

class Reducer {
 public:
  /// Every rank: learns where the uses of tied weights are. Throws InputError where they do not
  /// begin with the same values.
  Reducer(comm::Channel& channel, Position position, Stage& stage);

  /// Every rank: ties, then replicas. Afterwards every use holds the weight's whole gradient, but
  /// for those that are streamed.
  void reduce();
  /// Every replica: the same for a layer whose gradients are streamed and here now.
  void reduce(int streamed_layer);
  bool has_replicas() const { return position_.replicas > 1; }

  /// The layer's streamed gradients, which are here now, are whole: what they add to the next norm.
  void note_norm(int streamed_layer);

  /// Every rank of a pipeline: the norm over all parameters of the chain, a tied weight counted
  /// once.
  double global_norm();
  /// The same as one double on the stage's device, summed there; its bits are the same for every
  /// number of stages.
  at::Tensor global_norm_on_device();

  /// Whether this use is its weight's first in the whole chain: the one that is counted and saved.
  bool is_first_use(const StageParameter& parameter) const;

 private:
  struct Use {
    int layer = 0;
    int index = 0;
    int rank = 0;  ///< in the world
  };
  void learn_ties();
  void reduce_tie(const std::string& tie, const std::vector<Use>& uses);

  comm::Channel& channel_;
  Position position_;
  Stage& stage_;
  std::map<std::string, std::vector<Use>> ties_;  ///< uses in chain order
  /// By place in Stage::parameters(): what note_norm() found, the sum of squares or, off the CPU,
  /// its root on the device.
  std::map<std::size_t, double> squares_;
  std::map<std::size_t, at::Tensor> norms_;
};

}  // namespace trireme::runtime
