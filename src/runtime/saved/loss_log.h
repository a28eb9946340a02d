// Exchange of losses: the ranks of the last layer collect them, and all ranks receive them every
// report interval.
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

  /// Adds the losses of one step's micro-batches on this rank (none if it does not have the last
  /// layer).
  void add(const std::vector<float>& losses);

  /// Collective: the mean loss of each step since the last call, summed in the order of replicas
  /// and micro-batches.
  std::vector<double> exchange();

  /// Digest of all losses that were exchanged, by micro-batch.
  std::string digest() const;

  /// Every loss and every step's mean so far, to resume from.
  struct History {
    std::vector<float> losses;
    std::vector<double> means;
  };
  const History& history() const { return all_; }
  /// Continues after these.
  void resume_after(History history) { all_ = std::move(history); }

 private:
  comm::Channel& channel_;
  std::vector<float> mine_;
  int steps_ = 0;
  History all_;
};

}  // namespace trireme::runtime
