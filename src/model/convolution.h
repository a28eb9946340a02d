// Convolutions and batch norm as parts of layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parts.h"

#include <cstdint>
#include <string>

namespace trireme::model {

/// A square convolution that leaves the size as it is but for its stride.
struct ConvolutionShape {
  std::int64_t in = 0, out = 0;  ///< channels
  std::int64_t side = 3;         ///< of its window
  std::int64_t stride = 1;

  std::int64_t padding() const { return side / 2; }
};

/// A stack of feature maps on its way through a chain.
struct Maps {
  std::int64_t channels = 0, side = 0;
};

/// What a convolution makes of `maps`.
Maps after(const ConvolutionShape& shape, const Maps& maps);
/// Its multiply-adds.
double work(const ConvolutionShape& shape, const Maps& maps);

struct Convolution {
  ConvolutionShape shape;
  at::Tensor weight, bias;  ///< bias undefined: none

  at::Tensor operator()(const at::Tensor& x_BCHW) const;
};

/// `name`.weight, normal with the variance 2 / (out x side^2) that keeps rectified gradients in
/// scale (He et al. 2015).
Convolution add_convolution(const PartBuilder& build, const std::string& name,
                            const ConvolutionShape& shape);
/// The same with a `name`.bias of zeros.
Convolution add_biased_convolution(const PartBuilder& build, const std::string& name,
                                   const ConvolutionShape& shape);

/// Batch norm over all but the channels (Ioffe and Szegedy 2015). Training moves the running
/// statistics by a tenth; evaluation uses them. The tape: its input and two numbers per channel.
struct BatchNorm {
  at::Tensor weight, bias, mean, variance;

  /// Of [B, C, H, W], or of [B, C]. Throws InputError where training sees a single value per
  /// channel, which has no variance.
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
};

BatchNorm add_batch_norm(const PartBuilder& build, const std::string& name, std::int64_t channels);

}  // namespace trireme::model
