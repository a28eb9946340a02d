// The values that a rank holds while a program runs: outputs, tapes, gradients, by layer and
// micro-batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"
#include "trireme/model/taped.h"

#include <map>

namespace trireme::runtime {

/// Holds what the program says is held; a value that is not there is a defect, since every program
/// was validated.
class ValueStore {
 public:
  struct Key {
    int layer = 0;
    int micro_batch = 0;
    auto operator<=>(const Key&) const = default;
  };

  /// x[i], held by itself or inside its tape.
  const model::Values& output(Key key) const;
  void put_output(Key key, model::Values values);
  /// x[i], no longer held by itself (a tape's output stays in the tape).
  model::Values take_output(Key key);
  /// Frees a standalone x[i] if there is one.
  void drop_output(Key key) { outputs_.erase(key); }

  void put_tape(Key key, model::Tape tape);
  model::Tape take_tape(Key key);

  void put_gradient(Key key, model::Values gradients);
  model::Values take_gradient(Key key);

  bool empty() const { return outputs_.empty() && tapes_.empty() && gradients_.empty(); }
  /// Frees everything: after an error.
  void clear();

 private:
  std::map<Key, model::Values> outputs_;
  std::map<Key, model::Tape> tapes_;
  std::map<Key, model::Values> gradients_;
};

}  // namespace trireme::runtime
