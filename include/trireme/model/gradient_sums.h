// Gradient accumulation: buffers in which gradients of weights are summed over micro-batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace trireme::model {

class GradientSum;  ///< private to the module
class PendingProducts;
struct Deferral;  ///< private to the module

/// One flat float32 buffer on the weights' device, whatever the weights' type. Each sum begins on a
/// cache line, so that kernels see the same alignment wherever a parameter lies.
///
/// While this object lives, a backward that reaches one of the weights adds its gradient here and
/// leaves the weight's own grad() undefined.
class GradientSums {
 public:
  /// Starts with zeros. Each weight must be a leaf and belong to at most one such object at a time.
  explicit GradientSums(const std::vector<at::Tensor>& weights);
  ~GradientSums();
  GradientSums(GradientSums&&) noexcept;
  GradientSums& operator=(GradientSums&&) = delete;
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  /// Floats in the flat buffer of these weights, padding included: a sum of one term per weight.
  static std::int64_t numbers_for(const std::vector<at::Tensor>& weights);

  /// The flat buffer, with zero padding between the sums.
  const at::Tensor& flat() const { return flat_; }
  /// The sum of weight i with the weight's shape; a view of the flat buffer.
  const at::Tensor& of(std::size_t i) const;

  /// From now on, backwards store the weight-gradient products of linear layers in `into`, which
  /// must outlive them, instead of computing them; null ends this. Other gradients are added as
  /// usual.
  void defer_products(PendingProducts* into);

  /// Treats all sums as zero: the next gradient of each weight overwrites its sum, which takes half
  /// the memory traffic of zeroing and adding.
  void begin_anew();
  /// Zeroes the sums of weights that no backward has reached since begin_anew(). Call before
  /// reading the sums.
  void complete();

 private:
  at::Tensor flat_;
  std::vector<at::Tensor> weights_;
  std::shared_ptr<Deferral> deferral_;
  std::vector<std::shared_ptr<GradientSum>> sums_;
};

}  // namespace trireme::model
