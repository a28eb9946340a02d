// Frozen weights of a stage that live in the outer tier and come to the device while their layer is
// used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/weight_uses.h"
#include "trireme/tier/value_copies.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace trireme::runtime {

/// Made and used by one thread, in whose memory weights count while they are here: those of a few
/// layers at a time, once all were added. A tensor that stands in such a weight's storage, a tape's
/// too, has bytes only while the weight is here.
class StreamedWeights {
 public:
  /// Those of `layers`, of which `at_once` are here at a time, by `copies`, which nobody else uses
  /// and which have room for all of them.
  StreamedWeights(std::vector<int> layers, int at_once, std::unique_ptr<tier::ValueCopies> copies);
  ~StreamedWeights();
  StreamedWeights(const StreamedWeights&) = delete;
  StreamedWeights& operator=(const StreamedWeights&) = delete;

  /// Whether the weights of that layer shall be added.
  bool are_of(int layer) const;
  /// The layer's weights leave. Each stands in a storage of its own.
  void add(int layer, const std::vector<at::Tensor>& weights);

  /// In the outer tier, and what is here at a time.
  Bytes bytes() const;
  Bytes window() const;
  /// When those of layers up to `last` are needed.
  program::WeightUses uses(const std::vector<program::Action>& actions, int last) const;

  /// What compute was given so far has used what is here: these stay or begin to come, others go.
  /// The layers that begin to come.
  std::vector<int> hold(const program::HeldWeights& held);
  /// What compute is given from here on comes after the copies of a layer that is held.
  void await(int layer);
  /// Waits until nothing comes any more; when copies since the last call ran.
  tier::ValueCopies::Spans settle();

  /// The layer's weights are here until the next call of any function but settle().
  void bring(int layer);
  /// Likewise; what `change` writes into them stays.
  void change(int layer, const std::function<void()>& change);
  /// What was changed leaves.
  void close();

 private:
  static tier::ValueCopies::Key key(int layer);

  int at_once_;
  std::unique_ptr<tier::ValueCopies> copies_;
  std::map<int, std::vector<c10::Storage>> storages_;  ///< by layer; without any until added
  program::HeldWeights here_;
  int changed_ = 0;  ///< layer that is here and not outside
};

}  // namespace trireme::runtime
