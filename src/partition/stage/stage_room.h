// Memory and speed of a rank for a candidate stage.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/offload.h"
#include "stage_policy.h"

#include "trireme/chain/layer_range.h"
#include "trireme/partition/problem.h"

#include <cstddef>
#include <map>
#include <unordered_map>
#include <vector>

namespace trireme::partition {

/// Prefix sums over layers.
template <class Value>
class Sums {
 public:
  /// Appends the value of the next layer.
  void add(Value value) { sums_.push_back(sums_.back() + value); }
  Value of(chain::LayerRange layers) const { return to(layers.last) - to(layers.first - 1); }

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
  /// Memory for the programs of these layers: without static bytes and channel buffers;
  /// kUnlimited where the rank has no budget. May be negative.
  Bytes memory(int stage, chain::LayerRange layers) const;
  /// Bytes that such a stage holds with any program: static bytes and channel buffers.
  Bytes fixed(int stage, chain::LayerRange layers) const;
  /// Bytes that a stage ending with the chain holds per micro-batch between passes, in addition to
  /// what programs keep.
  Bytes waiting(int last) const;
  /// Whether memory() is enough for the backward of each layer by itself, which all programs have.
  bool may_fit(int stage, chain::LayerRange layers) const;
  /// The policy's question for this stage; with `copies` including the rank's copy link.
  StageQuestion asked(int stage, chain::LayerRange layers, bool copies = false) const;

  /// Time of these layers on the rank without recomputation.
  Seconds work(int stage, chain::LayerRange layers) const {
    return work_.of(layers) / speed(stage);
  }
  Seconds forward(int stage, chain::LayerRange layers) const {
    return forward_.of(layers) / speed(stage);
  }
  double speed(int stage) const { return rank(stage).speed; }
  /// Time for which x[last] occupies the lane from `stage` to the next; it arrives `latency`
  /// later.
  Seconds transfer(int stage, int last) const { return transfer(link(stage), last); }
  /// The same for any link.
  Seconds transfer(const chain::LinkSpec& link, int last) const;
  Seconds latency(int stage) const { return link(stage).latency; }

  const Question& question() const { return question_; }
  int layers() const { return question_.chain.length(); }
  int stages() const { return question_.stages; }

 private:
  const chain::RankSpec& rank(int stage) const {
    return question_.platform.ranks[static_cast<std::size_t>(stage)];
  }
  /// To the next stage.
  const chain::LinkSpec& link(int stage) const { return links_[static_cast<std::size_t>(stage)]; }
  const chain::SharedBytes& shared(chain::LayerRange layers) const;
  /// Offloaded bytes of the stage's optimizer state.
  Bytes offloaded(int stage, chain::LayerRange layers) const;
  /// Streamed bytes of the stage's weights.
  StreamedBytes streamed(int stage, chain::LayerRange layers) const;

  const Question& question_;
  std::vector<chain::LinkSpec> links_;
  std::vector<int> alike_;          // by rank: the first equal rank
  Sums<Bytes> static_, optimizer_;  // static_ includes optimizer_
  Sums<Seconds> work_, forward_;    // at speed 1
  std::vector<Bytes> least_;        // by layer: least memory of its backward
  mutable std::map<chain::LayerRange, chain::SharedBytes>
      shared_;  // memoized, since layers are built for it
  /// Memoized likewise, once for equal ranks.
  mutable std::unordered_map<std::size_t, StreamedBytes> streamed_;
};

}  // namespace trireme::partition
