// What a rank has left for a candidate stage, and how fast it is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/offload.h"
#include "stage_policy.h"

#include "trireme/partition/problem.h"

#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme::partition {

/// Sums of what runs of layers have.
template <class Value>
class Sums {
 public:
  /// What the next layer has.
  void add(Value value) { sums_.push_back(sums_.back() + value); }
  Value of(int first, int last) const { return to(last) - to(first - 1); }

 private:
  Value to(int last) const { return sums_[static_cast<std::size_t>(last)]; }

  std::vector<Value> sums_{Value{}};
};

/// Stage k is on rank k.
class StageRoom {
 public:
  explicit StageRoom(const Question& question);

  /// memory_for_programs(), kUnlimited where the rank has no budget.
  Bytes whole(int stage) const;
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
  double work(int stage, int first, int last) const { return work_.of(first, last) / speed(stage); }
  double forward(int stage, int first, int last) const {
    return forward_.of(first, last) / speed(stage);
  }
  double speed(int stage) const { return rank(stage).speed; }
  /// Seconds for which x[last] keeps the lane from `stage` to the next busy; it arrives `latency`
  /// after that.
  double transfer(int stage, int last) const { return transfer(link(stage), last); }
  /// The same between any two ranks.
  double transfer(int from, int to, int last) const {
    return transfer(question_.platform.link(from, to), last);
  }
  double latency(int stage) const { return link(stage).latency.count(); }

  const Question& question() const { return question_; }
  int layers() const { return question_.chain.length(); }
  int stages() const { return question_.stages; }

 private:
  const chain::RankSpec& rank(int stage) const {
    return question_.platform.ranks[static_cast<std::size_t>(stage)];
  }
  /// To the next stage.
  const chain::LinkSpec& link(int stage) const { return links_[static_cast<std::size_t>(stage)]; }
  double transfer(const chain::LinkSpec& link, int last) const;
  const chain::SharedBytes& shared(int first, int last) const;
  /// Of the stage's optimizer state, what is in the offload tier.
  Bytes away(int stage, int first, int last) const;
  /// Of the stage's weights.
  StreamedBytes streamed(int stage, int first, int last) const;

  const Question& question_;
  std::vector<chain::LinkSpec> links_;
  std::vector<int> alike_;          // by rank: the first one that is the same
  Sums<Bytes> static_, optimizer_;  // the latter inside the former
  Sums<double> work_, forward_;     // at speed 1
  std::vector<Bytes> least_;        // by layer: what its backward needs
  mutable std::map<std::pair<int, int>, chain::SharedBytes>
      shared_;  // asked for so far: layers are built for it
  /// Likewise, of ranks that are alike once.
  mutable std::unordered_map<std::size_t, StreamedBytes> streamed_;
};

}  // namespace trireme::partition
