// Cold caches between measured runs, as in a training step.
//
// A layer that runs repeatedly finds its weights and its tape in the caches, where it left them. In
// a step, all other layers run in between.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/model/layer.h"

#include <ATen/core/Tensor.h>

namespace trireme::profile {

class ColdCaches {
 public:
  /// Maximum bytes to touch: more than caches hold; a step may touch less between two runs of a
  /// layer.
  static constexpr Bytes kMost{std::int64_t{64} << 20};

  /// Allocates `touched` bytes on the device, at most kMost.
  ColdCaches(Bytes touched, c10::Device device);

  /// Fills the device's caches with `hot`, the output of the layer before, and otherwise with data
  /// that is not the layer's.
  void pass(const model::Values& hot);

 private:
  at::Tensor others_;
};

}  // namespace trireme::profile
