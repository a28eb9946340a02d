// In which types a job computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace trireme::model {

class Layer;

/// How forwards compute. Gradients that add up over micro-batches, moments and the values that an
/// optimizer changes are float32 in all of them.
enum class Precision {
  kFloat32,
  kBfloat16,         ///< under autocast: parameters and residuals in float32
  kBfloat16Weights,  ///< weights and what layers give each other in bfloat16
};

/// Of `train.precision`: float32, bfloat16 or bfloat16_weights.
Precision precision_of(const std::string& name);

/// Gives a layer's parameters the type that it computes with: bfloat16 for kBfloat16Weights, but
/// where Parameter::stays_float32. Returns, one per parameter, the float32 master that an optimizer
/// changes (Micikevicius et al. 2018, section 3.1): the parameter itself where it is float32 or
/// frozen.
std::vector<at::Tensor> lower_weights(Layer& layer, Precision precision);

/// The same for frozen parameters alone.
void lower_frozen(Layer& layer, Precision precision);

}  // namespace trireme::model
