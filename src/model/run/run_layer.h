// What every way to run a layer has in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"
#include "trireme/model/precision.h"

#include <c10/core/DeviceType.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

namespace trireme::model {

/// Runs the layer's forward on this thread, in its precision. Throws InputError for outputs that it
/// must not return and inputs that it changed in place. Members that share storage with an input,
/// a parameter, a buffer or the target are copied.
Values run_layer(Layer& layer, const Values& input, const Context& context, Precision precision);

/// The device of the first member.
c10::DeviceType device_of(const Values& input);
/// Parameters, buffers and target: tensors that exist independently of the forward.
Values held_by(const Layer& layer, const Context& context);
bool shares_storage(const at::Tensor& value, const Values& with);

/// Releases the memory of a leaf of a graph, of which only the sizes are needed.
void let_go_of_memory(const at::Tensor& leaf);

struct BackwardRun {
  const std::vector<torch::autograd::Edge>& roots;
  const Values& gradients;  ///< of the roots
  bool keeps_graph = false;
  std::vector<torch::autograd::Edge> only_to = {};  ///< leaves that get gradients; empty: all
};
/// Adds to the gradients of leaves. Throws InputError where the forward has changed in place what
/// its backward needs.
void run_backward(const BackwardRun& run);

}  // namespace trireme::model
