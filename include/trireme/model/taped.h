// One layer run alone: forward without or with a tape, a tape made again, and the backward of a
// tape. Whoever runs or measures layers does it through these, so that what was measured is what
// happens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"
#include "trireme/model/pending_products.h"
#include "trireme/model/precision.h"

#include <c10/core/DeviceType.h>
#include <c10/core/Storage.h>
#include <torch/csrc/autograd/edge.h>

#include <memory>
#include <vector>

namespace trireme::model {

/// Autocast to bfloat16 for one forward on this thread. The cache of cast weights is off: casts
/// made without grad must not serve a taped forward.
class AutocastScope {
 public:
  AutocastScope(Precision precision, c10::DeviceType device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool on_;
  c10::DeviceType device_;
  bool before_ = false;
};

/// What a taped forward leaves behind.
struct Tape {
  Values inputs;  ///< what saved tensors look at; they share the input's storage
  Values leaves;  ///< what backward fills with gradients, one per input
  /// Where backward begins, one per floating output; an edge that is not valid where nothing that
  /// was trained led to the output.
  std::vector<torch::autograd::Edge> roots;
  Values outputs;  ///< detached: x[i] for whoever comes next; empty after a retape
  /// With TapeUse::kMayMove, every storage that nothing but this tape holds: what it saved and its
  /// outputs, without parameters, buffers, input and target.
  std::vector<c10::Storage> storages = {};
  bool gives_zeros = false;  ///< as InputGradient::kZeros
};

class GradientSums;
class SavedTensor;  ///< private to the module

/// The graph of a forward without the tensors that its backward needs: some 10 kB beside the
/// tensors' memory. A retape fills it.
struct Outline {
  Values leaves;  ///< without memory
  std::vector<torch::autograd::Edge> roots;
  std::vector<std::shared_ptr<SavedTensor>> places;  ///< of tensors, in the order of the forward
  bool gives_zeros = false;
};

/// Whether a tape's bytes may be moved while it waits for its backward.
enum class TapeUse { kStays, kMayMove };

/// x[i] from x[i-1]. Empty if the layer gives nothing, which its caller must refuse. With
/// kBfloat16Weights a floating input that is not in bfloat16 (what the data set gave) goes in as
/// such.
///
/// Outputs never share storage with inputs: a member that the layer hands through is copied, so
/// that a value's bytes leave when it does. A layer that changes its input in place is refused with
/// an Error.
Values untaped_forward(Layer& layer, const Values& input, const Context& context,
                       Precision precision);
/// The same with everything kept that the backward needs.
Tape taped_forward(Layer& layer, const Values& input, const Context& context, Precision precision,
                   InputGradient input_gradient, TapeUse use = TapeUse::kStays);

struct Outlined {
  Values outputs;
  Outline outline;
};
/// x[i] as from untaped_forward, and a graph to be filled.
Outlined outlined_forward(Layer& layer, const Values& input, const Context& context,
                          Precision precision, InputGradient input_gradient);
/// Runs the layer again, on the same values with the same context, until it has saved what the
/// backward needs: the rest of the forward, often a product of matrices, is left out. Throws an
/// Error if it saves less than the first time.
Tape retape(Outline outline, Layer& layer, const Values& input, const Context& context,
            Precision precision);

/// Spends `tape`: adds to the gradients of the layer's parameters, returns those of the input (one
/// per member that carries one; empty for kNotNeeded). `gradients` are those of the floating
/// outputs; they live as long as the caller holds them. Throws InputError where the forward changed
/// in place what its backward needs.
Values backward(Tape tape, const Values& gradients);

struct SplitBackward {
  Values input_gradients;
  PendingProducts pending;
};
/// The first half of a backward whose second is pending.add(): all of it but the gradients of the
/// weights of linear layers, which add up in `sums`. Both halves give the bits of the whole, unless
/// the layer uses such a weight more than once. What is pending may share its bytes with
/// `gradients`, the input and the input gradients.
SplitBackward backward_input(Tape tape, const Values& gradients,
                             const std::vector<GradientSums*>& sums);

}  // namespace trireme::model
