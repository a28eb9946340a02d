// The global norm of a step's gradients.
//
// Squares are summed in chain order, so that the norm has the same bits for every number of stages,
// with and without a sharded optimizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"
#include "update/shards.h"

#include "trireme/comm/channel.h"
#include "trireme/runtime/position.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace trireme::runtime {

class GradientNorm {
 public:
  /// `counts`, by parameter: whether it is trained and its weight's first use in the chain.
  GradientNorm(comm::Channel& channel, Position position, const Stage& stage, Shards& shards,
               std::vector<bool> counts);

  /// Collective over replicas: computes a streamed layer's contribution to the next norm. Its
  /// gradients are on the device, complete, or summed for their owners.
  void note(int streamed_layer);

  /// Collective: the norm over all parameters of the chain.
  double value();
  /// The same as a double scalar on the stage's device, summed there.
  at::Tensor value_on_device();

 private:
  /// Sums of squares of units, one double for each, on the stage's device.
  struct Squares {
    std::vector<Shards::Unit> units;
    at::Tensor values;
  };
  /// Those of a group of parameters, gathered from all its owners.
  Squares squares(int group);
  void sum_on_cpu(const Squares& into, const comm::BufferRange& mine) const;
  void sum_on_device(const Squares& into, const comm::BufferRange& mine) const;
  /// Those of all groups, in the order of this rank's parameters.
  Squares of_rank();
  /// A sum of squares with its place in the chain.
  struct PlacedSquares {
    std::int64_t layer = 0;
    std::int64_t index = 0;
    double squares = 0;
  };
  PlacedSquares place_of(std::size_t parameter) const;
  /// Collective over a pipeline: all ranks' sums in chain order.
  std::vector<PlacedSquares> of_chain(const std::vector<PlacedSquares>& mine);

  comm::Channel& channel_;
  Position position_;
  const Stage& stage_;
  Shards& shards_;
  std::vector<bool> counts_;
  std::map<int, Squares> noted_;  ///< by streamed layer
};

}  // namespace trireme::runtime
