// Weights of a stage that live in the offload tier and come to the device while their layer is
// used, trained ones with their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/weights_here.h"
#include "trireme/tier/value_copies.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// Made and used by one thread, in whose memory weights count while they are here: those of a few
/// layers at a time, once all were added. A tensor that stands in such a weight's storage, a tape's
/// too, has bytes only while the weight is here.
class StreamedWeights {
 public:
  /// Of which layers, and how many of them are here at a time.
  struct Layers {
    std::vector<int> numbers;
    int at_once = program::kLeastAtOnce;
    bool has_replicas = false;  ///< as in program::weight_uses()
  };
  /// By `copies`, which nobody else uses and which have room for all of them.
  StreamedWeights(const Layers& layers, std::unique_ptr<tier::ValueCopies> copies);
  ~StreamedWeights();
  StreamedWeights(const StreamedWeights&) = delete;
  StreamedWeights& operator=(const StreamedWeights&) = delete;

  /// Whether the weights of that layer shall be added.
  bool are_of(int layer) const;
  /// The layer's weights leave, and the buffer of their gradients if they are trained. Each stands
  /// in a storage of its own.
  void add(int layer, const std::vector<at::Tensor>& weights, const at::Tensor& gradients = {});

  /// In the offload tier, and what is here at a time.
  Bytes bytes() const;
  Bytes window() const;
  /// When those of layers up to `last` are needed.
  program::WeightUses uses(const std::vector<program::Action>& actions, int last) const;

  /// What compute was given so far has used what is here: these stay or begin to come, others go,
  /// by copies out if something changed in them. What moved.
  std::vector<program::WeightsMove> hold(const program::HeldWeights& held);
  /// The same when a use ends.
  std::vector<program::WeightsMove> end(const program::WeightUses::Use& use);
  /// What compute is given from here on comes after the copies of a layer that is held.
  void await(int layer, bool gradients);
  /// Waits until nothing moves any more; when copies since the last call ran.
  tier::ValueCopies::Spans settle();
  /// Bytes that came since the last call.
  Bytes take_moved() { return std::exchange(moved_, Bytes(0)); }

  /// The layer's weights are here until the next call of any function but settle().
  void bring(int layer);
  /// Likewise; what `change` writes into them stays.
  void change(int layer, const std::function<void()>& change);
  /// What was changed leaves.
  void close();

 private:
  struct Layer {
    std::vector<c10::Storage> weights, gradients;  ///< without any until added

    chain::OffloadWeights size() const;
  };
  static tier::ValueCopies::Key key(int layer, bool gradients);
  void send(int layer, bool gradients, const std::vector<c10::Storage>& storages);
  void make(const program::WeightsMove& move);
  void release();

  int at_once_;
  bool has_replicas_;
  std::unique_ptr<tier::ValueCopies> copies_;
  std::map<int, Layer> layers_;
  program::WeightsHere here_;
  Bytes moved_;
  bool is_leaving_ = false;  ///< something, whose device bytes were not freed yet
};

}  // namespace trireme::runtime
