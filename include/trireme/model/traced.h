// Runs one layer of a graph. Its backward is split by inputs, each may be run several times, and
// the values that it reads are given anew each time, so that every value can be dropped, copied and
// computed again by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/model/layer.h"
#include "trireme/model/precision.h"

#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace trireme::model {

class SavedTensor;  ///< private to the module

/// The autograd graph of a forward without the inputs and the output that its backward reads; what
/// else it saved (statistics of a batch norm, indices of a pool) stays in it.
class Trace {
 public:
  /// Whether the backward reads this input, and the output.
  bool reads_input(std::size_t input) const;
  bool reads_output() const;
  /// Storages that only the trace holds.
  std::vector<c10::Storage> kept() const;

  /// What a backward is given.
  struct Given {
    const Values& inputs;        ///< one per input; undefined where the backward does not read it
    const at::Tensor& output;    ///< undefined if the backward does not read it
    const at::Tensor& gradient;  ///< of the output
  };
  /// The gradient of an input; undefined where it needs none. `parameters` are those whose
  /// gradients are added to their sums. Throws InputError where the forward changed in place what
  /// its backward needs.
  at::Tensor backward(const Given& given, std::size_t input,
                      const std::vector<Parameter>& parameters) const;

 private:
  friend struct Tracing;

  /// A view of an input or of the output that the graph saved.
  struct View {
    static constexpr std::size_t kOutput = static_cast<std::size_t>(-1);

    std::shared_ptr<SavedTensor> place;
    std::size_t of = kOutput;  ///< number of the input
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
  };

  Values leaves_;  ///< without memory
  torch::autograd::Edge root_;
  std::vector<View> views_;
  Values kept_;
};

struct Traced {
  at::Tensor output;
  Trace trace;
};

/// The layer's output, one tensor, and the graph of its backward. `wants_gradient` says which
/// inputs get a gradient. As taped_forward(), the output shares no storage with an input. Throws
/// InputError if the layer returns another number of tensors, or changes an input in place.
Traced traced_forward(Layer& layer, const Values& inputs, const Context& context,
                      Precision precision, const std::vector<bool>& wants_gradient);

}  // namespace trireme::model
