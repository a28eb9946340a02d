// Where the gradients of some weights add up over micro-batches.
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

/// One flat float32 buffer on the weights' device, whatever their type. Each sum begins on a cache
/// line, so that kernels see the same alignment wherever a parameter lies.
///
/// While it lives, a backward that reaches one of the weights adds its gradient here, and leaves
/// the weight's own grad() undefined.
class GradientSums {
 public:
  /// All zero. Of each tensor, a leaf, there is one such object at a time.
  explicit GradientSums(const std::vector<at::Tensor>& weights);
  ~GradientSums();
  GradientSums(GradientSums&&) noexcept;
  GradientSums& operator=(GradientSums&&) = delete;
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  /// Numbers of the flat buffer of such weights: a sum of what each takes.
  static std::int64_t numbers_for(const std::vector<at::Tensor>& weights);

  /// With padding, which is zero, between the sums.
  const at::Tensor& flat() const { return flat_; }
  /// That of weight i with its sizes; a view of the flat buffer.
  const at::Tensor& of(std::size_t i) const;

  /// From here on backwards leave the products of linear layers in `into`, which outlives them,
  /// instead of adding them; null: no longer. Other gradients are added as ever.
  void defer_products(PendingProducts* into);

  /// Sums are as good as zero: the next gradient of each weight is copied over what is there, which
  /// takes half the bytes of zeroing and adding.
  void begin_anew();
  /// Zeroes the sums of weights that no backward has reached since then. To be called before they
  /// are read.
  void complete();

 private:
  at::Tensor flat_;
  std::vector<at::Tensor> weights_;
  std::shared_ptr<Deferral> deferral_;
  std::vector<std::shared_ptr<GradientSum>> sums_;
};

}  // namespace trireme::model
