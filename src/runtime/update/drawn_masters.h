// Draws masters that a stage does not keep, for the optimizer to store elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/built_layers.h"
#include "state/stage.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace trireme::runtime {

/// The initial float32 values of a stage's parameters: the stage's masters if it keeps them, else
/// those of its layers built once more, few at a time.
class DrawnMasters {
 public:
  /// `layers`, ascending: the layers that of() is called for.
  DrawnMasters(const Stage& stage, std::vector<int> layers);

  /// In the parameter's shape. If the stage keeps no masters: host memory that no budget counts,
  /// valid until a later layer is asked for; earlier ones cannot be.
  at::Tensor of(const StageParameter& parameter);

 private:
  const Stage& stage_;
  std::vector<int> numbers_;
  std::size_t taken_ = 0;
  BuiltLayers built_;
  std::unique_ptr<model::Layer> layer_;
};

}  // namespace trireme::runtime
