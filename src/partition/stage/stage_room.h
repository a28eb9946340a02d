// What a rank has left for a candidate stage, and how fast it is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/streamed_layers.h"
#include "stage_policy.h"

#include "trireme/partition/problem.h"

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme::partition {

/// Stage k is on rank k.
class StageRoom {
 public:
  explicit StageRoom(const Question& question);

  /// Memory for the programs of layers first..last: without static bytes and channel buffers;
  /// kUnlimited where the rank has no budget. May be negative.
  Bytes memory(int stage, int first, int last) const;
  /// What such a stage holds whatever its program: static bytes and channel buffers.
  Bytes fixed(int stage, int first, int last) const;
  /// What a stage that ends with the chain holds for micro-batches between its passes, beside what
  /// their programs keep.
  Bytes waiting(int last) const;
  /// Whether that is enough for the backward of each layer by itself, which all programs have.
  bool may_fit(int stage, int first, int last) const;
  /// With `copies` the rank's link is inside.
  StageQuestion asked(int stage, int first, int last, bool copies = false) const;

  /// Seconds of first..last on the rank if nothing is run twice.
  double work(int stage, int first, int last) const;
  double forward(int stage, int first, int last) const;
  double speed(int stage) const;
  /// Seconds for which x[last] keeps the lane from `stage` to the next busy; it arrives `latency`
  /// after that.
  double transfer(int stage, int last) const;
  /// The same between any two ranks.
  double transfer(int from, int to, int last) const;
  double latency(int stage) const {
    return links_[static_cast<std::size_t>(stage)].latency.count();
  }

  const Question& question() const { return question_; }
  int layers() const { return question_.chain.length(); }
  int stages() const { return question_.stages; }

 private:
  double transfer(const chain::LinkSpec& link, int last) const;
  const chain::SharedBytes& shared(int first, int last) const;
  /// Of the stage's optimiser state, what is in the outer tier.
  Bytes away(int stage, int first, int last) const;
  /// Of the stage's weights.
  StreamedBytes streamed(int stage, int first, int last) const;

  const Question& question_;
  std::vector<chain::LinkSpec> links_;  // to the next stage
  std::vector<int> alike_;              // by rank: the first one that is the same
  std::vector<Bytes> static_;           // sums
  std::vector<Bytes> optimizer_;        // sums, inside static_
  std::vector<double> work_, forward_;  // sums, at speed 1
  std::vector<Bytes> least_;            // by layer: what its backward needs
  mutable std::map<std::pair<int, int>, chain::SharedBytes>
      shared_;  // asked for so far: layers are built for it
  /// Likewise, of ranks that are alike once.
  mutable std::unordered_map<std::uint64_t, StreamedBytes> streamed_;
};

}  // namespace trireme::partition
