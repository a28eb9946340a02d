// Caches as a step leaves them.
//
// A layer that runs again and again finds its weights and its tape in the caches, where it left
// them. In a step, all other layers run in between.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/model/layer.h"

#include <ATen/core/Tensor.h>

namespace trireme::profile {

class ColdCaches {
 public:
  /// More than caches hold, or what a step touches between two runs of a layer where that is less.
  static constexpr Bytes kMost{std::int64_t{64} << 20};

  /// Holds `touched` bytes of the device, at most kMost.
  ColdCaches(Bytes touched, c10::Device device);

  /// The device's caches hold `hot`, what the layer before has just made, and otherwise other
  /// things than a layer's.
  void pass(const model::Values& hot);

 private:
  at::Tensor others_;
};

}  // namespace trireme::profile
