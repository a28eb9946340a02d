// The global norm of a step's gradients.
//
// It is the root of a sum of squares whose order is that of the chain, so that it has the same bits
// for every number of stages, and for replicas that divide their parameters and those that do not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/runtime/position.h"
#include "trireme/runtime/shards.h"
#include "trireme/runtime/stage.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace trireme::runtime {

class GradientNorm {
 public:
  /// `counts`, by parameter: trained, and its weight's first use in the chain.
  GradientNorm(comm::Channel& channel, Position position, const Stage& stage, Shards& shards,
               std::vector<bool> counts);

  /// Every replica: a streamed layer's gradients, which are here now, are whole, or summed up for
  /// their owners: what they add to the next norm.
  void note(int streamed_layer);

  /// Every rank: the norm over all parameters of the chain.
  double value();
  /// The same as one double on the stage's device, summed there.
  at::Tensor value_on_device();

 private:
  /// Sums of squares of units, one double for each, on the stage's device.
  struct Squares {
    std::vector<Shards::Unit> units;
    at::Tensor values;
  };
  /// Of a group of parameters, as all its owners have them.
  Squares squares(int group);
  void sum_on_cpu(const Squares& into, const comm::Part& mine) const;
  void sum_on_device(const Squares& into, const comm::Part& mine) const;
  /// Of all groups, in the order of this rank's parameters.
  Squares of_rank();
  /// A number with its place in the chain.
  struct Part {
    std::int64_t layer = 0;
    std::int64_t index = 0;
    double squares = 0;
  };
  Part place_of(std::size_t parameter) const;
  /// Every rank of a pipeline: all ranks' parts in chain order.
  std::vector<Part> of_chain(const std::vector<Part>& mine);

  comm::Channel& channel_;
  Position position_;
  const Stage& stage_;
  Shards& shards_;
  std::vector<bool> counts_;
  std::map<int, Squares> noted_;  ///< by streamed layer
};

}  // namespace trireme::runtime
