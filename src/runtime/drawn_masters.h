// Masters that a stage does not keep, for who puts them elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "built_layers.h"

#include "trireme/runtime/stage.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace trireme::runtime {

/// The float32 values that a stage's parameters begin with: of a stage that keeps its masters
/// those, else those of its layers built once more, few at a time.
class DrawnMasters {
 public:
  /// `layers`, ascending, are all that of() is called for.
  DrawnMasters(const Stage& stage, std::vector<int> layers);

  /// In the parameter's shape. Of a stage that keeps none: host memory that counts as nobody's, as
  /// long as no later layer is asked for; no earlier one can be.
  at::Tensor of(const StageParameter& parameter);

 private:
  const Stage& stage_;
  std::vector<int> numbers_;
  std::size_t taken_ = 0;
  BuiltLayers built_;
  std::unique_ptr<model::Layer> layer_;
};

}  // namespace trireme::runtime
