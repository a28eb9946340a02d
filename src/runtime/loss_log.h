// Losses on their way to everyone: the ranks of the last layer collect them, every report interval
// all ranks learn them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <string>
#include <utility>
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

  /// Every loss and every step's mean so far, for a run that goes on.
  struct History {
    std::vector<float> losses;
    std::vector<double> means;
  };
  const History& history() const { return all_; }
  /// Goes on behind these.
  void resume_after(History history) { all_ = std::move(history); }

 private:
  comm::Channel& channel_;
  std::vector<float> mine_;
  int steps_ = 0;
  History all_;
};

}  // namespace trireme::runtime
