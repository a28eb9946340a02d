// The values that a rank holds while a program runs: outputs, tapes, gradients, by layer and
// micro-batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"
#include "trireme/model/taped.h"
#include "trireme/program/needs.h"

#include <c10/core/Storage.h>

#include <map>
#include <vector>

namespace trireme::runtime {

/// Holds what the program says is held; a missing value is a defect, since every program was
/// validated.
///
/// A tape refers to its layer's input without holding it: the input may be dropped or offloaded
/// while the tape is kept, and come back, also as another tensor with the same values. The store
/// keeps every tape's view of its input in step with the input itself.
class ValueStore {
 public:
  struct Key {
    int layer = 0;
    int micro_batch = 0;
    auto operator<=>(const Key&) const = default;
  };

  /// x[i], standalone or inside its tape.
  const model::Values& output(Key key) const;
  void put_output(Key key, model::Values values);
  /// Returns x[i] and no longer holds it standalone (a tape's output stays in the tape).
  model::Values take_output(Key key);
  /// Frees a standalone x[i] if there is one.
  void drop_output(Key key);

  void put_tape(Key key, model::Tape tape);
  model::Tape take_tape(Key key);

  /// The storages that offloading the value moves: all that it alone holds.
  std::vector<c10::Storage> storages(const program::ValueKey& value) const;
  /// The value's bytes were freed on the device, or are allocated again (perhaps not filled yet).
  /// Meanwhile an x[i] is not held; a graph may compute it anew.
  void left(const program::ValueKey& value);
  void returned(const program::ValueKey& value);

  void put_gradient(Key key, model::Values gradients);
  const model::Values& gradient(Key key) const;
  model::Values take_gradient(Key key);

  bool empty() const {
    return outputs_.empty() && offloaded_.empty() && tapes_.empty() && gradients_.empty();
  }
  /// Frees everything: after an error.
  void clear();

 private:
  void connect(Key key, const model::Values& output);
  void disconnect(Key key, const model::Values& output);

  std::map<Key, model::Values> outputs_;
  std::map<Key, model::Values> offloaded_;  ///< without bytes
  std::map<Key, model::Tape> tapes_;
  std::map<Key, model::Values> gradients_;
};

}  // namespace trireme::runtime
