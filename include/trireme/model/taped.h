// Runs a single layer: forward with or without a tape (saved activations), recomputation of a tape,
// and backward. The runtime and the profiler both use these functions, so that what is measured is
// what runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"
#include "trireme/model/pending_products.h"
#include "trireme/model/precision.h"

#include <c10/core/DeviceType.h>
#include <c10/core/Storage.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <vector>

namespace trireme::model {

/// Autocast to bfloat16 for one forward on this thread. The cache of cast weights is off: casts
/// made without grad must not be used by a taped forward.
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

/// The saved activations and graph of a taped forward.
struct Tape {
  Values inputs;  ///< views of the input, with which saved tensors share storage
  Values leaves;  ///< leaves that backward fills with gradients, one per input
  /// Where backward begins, one edge per floating output; an invalid edge if the output depends on
  /// nothing that is trained.
  std::vector<torch::autograd::Edge> roots;
  Values outputs;  ///< detached: x[i] for the next layer; empty after a retape
  /// With TapeUse::kMayMove, every storage that only this tape holds: saved tensors and outputs,
  /// without parameters, buffers, input and target.
  std::vector<c10::Storage> storages = {};
  bool gives_zeros = false;  ///< as InputGradient::kZeros
};

class GradientSums;
class SavedTensor;  ///< private to the module

/// The graph of a forward without its saved tensors: some 10 kB on top of the tensors' memory. A
/// retape (early-stop recomputation) fills it.
struct Outline {
  Values leaves;  ///< without memory
  std::vector<torch::autograd::Edge> roots;
  std::vector<std::shared_ptr<SavedTensor>> places;  ///< of saved tensors, in forward order
  bool gives_zeros = false;
};

/// Whether a tape's bytes may be offloaded while it waits for its backward.
enum class TapeUse { kStays, kMayMove };

/// Computes x[i] from x[i-1]. Empty if the layer returns nothing, which the caller must refuse.
/// With kBfloat16Weights floating inputs that are not bfloat16 (from the data set) are converted.
///
/// Outputs never share storage with inputs: a member that the layer passes through is copied, so
/// that a value's memory is freed with it. A layer that changes its input in place is refused with
/// an Error.
Values untaped_forward(Layer& layer, const Values& input, const Context& context,
                       Precision precision);
/// The same, saving everything that the backward needs.
Tape taped_forward(Layer& layer, const Values& input, const Context& context, Precision precision,
                   InputGradient input_gradient, TapeUse use = TapeUse::kStays);

struct Outlined {
  Values outputs;
  Outline outline;
};
/// x[i] as from untaped_forward, and an outline to be filled by retape().
Outlined outlined_forward(Layer& layer, const Values& input, const Context& context,
                          Precision precision, InputGradient input_gradient);
/// Early-stop recomputation: runs the layer again, on the same values and context, until it has
/// saved what the backward needs; the rest of the forward, often a matrix product, is skipped.
/// Throws an Error if it saves less than the first time.
Tape retape(Outline outline, Layer& layer, const Values& input, const Context& context,
            Precision precision);

/// Consumes `tape`: adds to the gradients of the layer's parameters and returns those of the input
/// (one per member that carries one; empty for kNotNeeded). `gradients` are those of the floating
/// outputs; they live as long as the caller holds them. Throws InputError if the forward changed in
/// place what its backward needs.
Values backward(Tape tape, const Values& gradients);

struct SplitBackward {
  Values input_gradients;
  PendingProducts pending;
};
/// The first part (B) of a split backward, whose second part (W) is pending.add(): all of the
/// backward except the gradients of linear layers' weights, which are summed in `sums`. Both parts
/// together give the bits of the whole, unless the layer uses such a weight more than once. What is
/// pending may share memory with `gradients`, the input and the input gradients.
SplitBackward backward_input(Tape tape, const Values& gradients,
                             const std::vector<GradientSums*>& sums);

}  // namespace trireme::model
