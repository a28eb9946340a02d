// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/values.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

namespace trireme::runtime {
namespace {

template <class Held>
Held take(std::map<ValueStore::Key, Held>& from, ValueStore::Key key, const char* what) {
  auto node = from.extract(key);
  ensure(!node.empty(),
         concat(what, " ", key.layer, " of micro-batch ", key.micro_batch, " is held"));
  return std::move(node.mapped());
}

}  // namespace

const model::Values& ValueStore::output(Key key) const {
  if (const auto standalone = outputs_.find(key); standalone != outputs_.end())
    return standalone->second;
  const auto tape = tapes_.find(key);
  ensure(tape != tapes_.end(),
         concat("output ", key.layer, " of micro-batch ", key.micro_batch, " is held"));
  return tape->second.outputs;
}

void ValueStore::put_output(Key key, model::Values values) {
  outputs_[key] = std::move(values);
}

model::Values ValueStore::take_output(Key key) {
  if (outputs_.contains(key)) return take(outputs_, key, "output");
  return output(key);
}

void ValueStore::put_tape(Key key, model::Tape tape) {
  tapes_[key] = std::move(tape);
}

model::Tape ValueStore::take_tape(Key key) {
  return take(tapes_, key, "tape");
}

void ValueStore::put_gradient(Key key, model::Values gradients) {
  gradients_[key] = std::move(gradients);
}

model::Values ValueStore::take_gradient(Key key) {
  return take(gradients_, key, "gradient");
}

void ValueStore::clear() {
  outputs_.clear();
  tapes_.clear();
  gradients_.clear();
}

}  // namespace trireme::runtime
