// Weight streaming (parameter offload): weights of a stage are in the offload tier and are copied
// to the device while their layer is used, trained ones with their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/weights.h"
#include "trireme/tier/value_copies.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// Created and used by one thread, in whose memory weights on the device count: those of a few
/// layers at a time, once all were added. A tensor in such a weight's storage, a tape's too, has
/// bytes only while the weight is on the device.
class StreamedWeights {
 public:
  /// Which layers are streamed, and how many of them are on the device at a time.
  struct Layers {
    std::vector<int> numbers;
    int at_once = program::kLeastAtOnce;
    bool has_replicas = false;  ///< as in program::weight_uses()
  };
  /// `copies` is used by nothing else and has room for all of them.
  StreamedWeights(const Layers& layers, std::unique_ptr<tier::ValueCopies> copies);
  ~StreamedWeights();
  StreamedWeights(const StreamedWeights&) = delete;
  StreamedWeights& operator=(const StreamedWeights&) = delete;

  /// Whether that layer's weights are streamed (to be passed to add()).
  bool are_of(int layer) const;
  /// Offloads the layer's weights, and the buffer of their gradients if they are trained. Each has
  /// a storage of its own.
  void add(int layer, const std::vector<at::Tensor>& weights, const at::Tensor& gradients = {});

  /// Bytes in the offload tier, and the most on the device at a time.
  Bytes bytes() const;
  Bytes window() const;
  /// How programs of `layers` layers stream them.
  program::Streaming streaming(int layers) const;

  /// Does what the action says, which program::moves_weights(), after all compute queued so far.
  void move(const program::Action& action);
  /// Moves after which `held` and nothing else is on the device: others are freed, after a copy out
  /// if they changed, and missing ones are copied in.
  std::vector<program::Action> moves_to(const program::HeldWeights& held);
  /// Makes these moves.
  void hold(const program::HeldWeights& held);
  /// What compute has changed of a streamed layer since it was copied in.
  void used(int layer, program::WeightsChange change);
  /// Compute queued from here on runs after the copies of a layer that is held.
  void await(int layer, bool gradients);
  /// Waits for all copies; returns when those since the last call ran.
  tier::ValueCopies::Spans settle();
  /// Bytes copied in since the last call.
  Bytes take_moved() { return std::exchange(moved_, Bytes(0)); }

  /// Brings the layer's weights to the device, until the next call of any function but settle().
  void bring(int layer);
  /// Likewise; what `change` writes into them is kept.
  void change(int layer, const std::function<void()>& change);
  /// Copies out what was changed and frees all device bytes.
  void close();

 private:
  struct Layer {
    std::vector<c10::Storage> weights, gradients;  ///< empty until added

    chain::OffloadWeights size() const;
  };
  static tier::ValueCopies::Key key(int layer, bool gradients);
  void send(int layer, bool gradients, const std::vector<c10::Storage>& storages);
  void make(const program::WeightsMove& move);
  void release_all();

  int at_once_;
  bool has_replicas_;
  std::unique_ptr<tier::ValueCopies> copies_;
  std::map<int, Layer> layers_;
  program::WeightsHere here_;
  Bytes moved_;
  int leaving_ = 0;  ///< copies out whose device bytes were not freed yet
};

}  // namespace trireme::runtime
