// Precision: the types in which a job computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace trireme::model {

class Layer;

/// Precision of forwards. Gradients summed over micro-batches, moments and the values that an
/// optimizer updates are always float32.
enum class Precision {
  kFloat32,
  kBfloat16,         ///< under autocast: parameters and residuals in float32
  kBfloat16Weights,  ///< weights and layer outputs in bfloat16
};

/// Precision by its name in `train.precision`: float32, bfloat16 or bfloat16_weights.
Precision precision_of(const std::string& name);

/// Converts a layer's parameters to the type that it computes with: bfloat16 for kBfloat16Weights,
/// except with Parameter::stays_float32. Returns, one per parameter, the float32 master that an
/// optimizer updates (Micikevicius et al. 2018, section 3.1): the parameter itself if it is float32
/// or frozen.
std::vector<at::Tensor> lower_weights(Layer& layer, Precision precision);

/// The same, for frozen parameters only.
void lower_frozen(Layer& layer, Precision precision);

}  // namespace trireme::model
