// Scalars of a step (losses, norms) that the host reads asynchronously, once the step is over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/place.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace trireme::runtime {

/// Asynchronous copies of scalars to the host; nothing waits for them until they are taken
/// together. On CPU they are there at once.
class LateScalars {
 public:
  /// `type` of the copies: kFloat or kDouble.
  LateScalars(const device::Place& place, at::ScalarType type) : place_(&place), type_(type) {}

  /// Adds one value, on the place's device or on the host.
  void put(std::size_t index, const at::Tensor& value);
  void put(std::size_t index, double value);

  /// Returns values 0.. up to the last that was put, 0 where none was, and clears them. To be
  /// called once the device has finished all its work.
  std::vector<double> take();

 private:
  at::Tensor slot(std::size_t index);

  const device::Place* place_;
  at::ScalarType type_;
  std::vector<at::Tensor> chunks_;  ///< copies into them may be in flight, so none is ever moved
  std::size_t count_ = 0;
};

}  // namespace trireme::runtime
