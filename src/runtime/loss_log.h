// Losses on their way to everyone: the ranks of the last layer collect them, every report interval
// all ranks learn them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <string>
#include <vector>

namespace trireme::runtime {

class LossLog {
 public:
  explicit LossLog(comm::Channel& channel) : channel_(channel) {}

  /// Losses of one step's micro-batches on this rank (none where the last layer is not).
  void add(const std::vector<float>& losses);

  /// Every rank: the mean loss of each step since the last call, summed in the order of replicas
  /// and micro-batches.
  std::vector<double> exchange();

  /// Over all losses that were exchanged, micro-batch by micro-batch.
  std::string digest() const;

 private:
  comm::Channel& channel_;
  std::vector<float> mine_;
  int steps_ = 0;
  std::string all_;  ///< bytes of the losses, step by step
};

}  // namespace trireme::runtime
