// The list of all numbers of a layer's cost: whatever scales, compares, adds, reads or writes all
// of them walks through it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/text.h"

#include <string>
#include <string_view>

namespace trireme::chain {

/// What a number grows with.
enum class Grows {
  kPass,     ///< time of a pass: grows with the examples of a micro-batch, and on slower ranks
  kUpdate,   ///< time that does not depend on the micro-batch
  kValues,   ///< bytes that grow with the examples of a micro-batch
  kWeights,  ///< bytes that do not depend on the micro-batch
  kEnergy,   ///< energy of a pass: grows with the examples of a micro-batch, on any rank
};

struct CostField {
  std::string_view key;  ///< in files
  Grows grows;
  /// Whether a file must have it, and whether it is written where it is 0.
  enum class In { kEveryFile, kMostFiles, kSomeFiles } in = In::kMostFiles;

  bool grows_with_examples() const {
    return grows == Grows::kPass || grows == Grows::kValues || grows == Grows::kEnergy;
  }
};

/// A number as files have it: seconds, joules, or bytes.
inline std::string text_of(Seconds value) {
  return to_text(value.count());
}
inline std::string text_of(Joules value) {
  return to_text(value.count());
}
inline std::string text_of(Bytes value) {
  return concat(value.count());
}

/// Calls visit(field, number...) for each number of `cost`..., which are all const or none, in the
/// order of files; the optional parts of a cost are walked through by themselves.
template <class Visit, class... Costs>
void walk_whole(Visit&& visit, Costs&... cost) {
  using enum Grows;
  using enum CostField::In;
  visit(CostField{"forward_s", kPass, kEveryFile}, cost.forward...);
  visit(CostField{"backward_s", kPass, kEveryFile}, cost.backward...);
  visit(CostField{"output_bytes", kValues, kEveryFile}, cost.output...);
  visit(CostField{"tape_bytes", kValues, kEveryFile}, cost.tape...);
  visit(CostField{"forward_transient_bytes", kValues}, cost.forward_transient...);
  visit(CostField{"tape_transient_bytes", kValues}, cost.tape_transient...);
  visit(CostField{"backward_transient_bytes", kValues}, cost.backward_transient...);
  visit(CostField{"parameter_bytes", kWeights}, cost.parameters...);
  visit(CostField{"gradient_bytes", kWeights}, cost.gradients...);
  visit(CostField{"optimizer_bytes", kWeights}, cost.optimizer...);
  visit(CostField{"update_s", kUpdate, kSomeFiles}, cost.update...);
  visit(CostField{"forward_j", kEnergy, kSomeFiles}, cost.forward_energy...);
  visit(CostField{"backward_j", kEnergy, kSomeFiles}, cost.backward_energy...);
  visit(CostField{"frozen_bytes", kWeights, kSomeFiles}, cost.frozen...);
  visit(CostField{"trained_bytes", kWeights, kSomeFiles}, cost.trained...);
  visit(CostField{"trained_gradient_bytes", kWeights, kSomeFiles}, cost.trained_gradients...);
  visit(CostField{"tape_stays_bytes", kValues, kSomeFiles}, cost.tape_stays...);
}

template <class Visit, class... Retapes>
void walk_retape(Visit&& visit, Retapes&... retape) {
  visit(CostField{"retape_s", Grows::kPass}, retape.time...);
  visit(CostField{"retape_bytes", Grows::kValues}, retape.tape...);
  visit(CostField{"retape_transient_bytes", Grows::kValues}, retape.tape_transient...);
  visit(CostField{"retape_backward_transient_bytes", Grows::kValues}, retape.backward_transient...);
}

template <class Visit, class... Splits>
void walk_split(Visit&& visit, Splits&... split) {
  visit(CostField{"backward_weights_s", Grows::kPass}, split.weights...);
  visit(CostField{"pending_bytes", Grows::kValues}, split.pending...);
  visit(CostField{"backward_input_transient_bytes", Grows::kValues}, split.input_transient...);
  visit(CostField{"backward_weights_transient_bytes", Grows::kWeights}, split.weights_transient...);
}

/// All three lists, an optional part only where every one of `cost`... has it.
template <class Visit, class... Costs>
void walk(Visit&& visit, Costs&... cost) {
  walk_whole(visit, cost...);
  if ((cost.retape.has_value() && ...)) walk_retape(visit, *cost.retape...);
  if ((cost.split.has_value() && ...)) walk_split(visit, *cost.split...);
}

/// Whether a file of this layer leaves the field out; `is_zero` says whether its value is 0.
inline bool is_left_out(const CostField& field, bool is_zero, const LayerCost& layer) {
  // Missing trained gradients mean all gradients of the layer, so 0 must be written.
  const bool must_be_said = field.key == "trained_gradient_bytes" && layer.trained > Bytes(0);
  return field.in == CostField::In::kSomeFiles && is_zero && !must_be_said;
}

}  // namespace trireme::chain
