// Convolutions and batch norm as parts of layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architectures/parts.h"

#include <cstdint>
#include <string>

namespace trireme::model {

/// A square convolution that keeps the map's size, except for its stride.
struct ConvolutionShape {
  std::int64_t in = 0, out = 0;  ///< channels
  std::int64_t side = 3;         ///< kernel size
  std::int64_t stride = 1;

  std::int64_t padding() const { return side / 2; }
};

/// Shape of the square feature maps between layers.
struct Maps {
  std::int64_t channels = 0, side = 0;
};

/// Shape of a convolution's output for input `maps`.
Maps after(const ConvolutionShape& shape, const Maps& maps);
/// Multiply-adds of that convolution.
double work(const ConvolutionShape& shape, const Maps& maps);

struct Convolution {
  ConvolutionShape shape;
  at::Tensor weight, bias;  ///< bias undefined: none

  at::Tensor operator()(const at::Tensor& x_BCHW) const;
};

/// `name`.weight, normal with variance 2 / (out x side^2), which keeps the scale of gradients
/// through ReLUs (He et al. 2015).
Convolution add_convolution(const PartBuilder& build, const std::string& name,
                            const ConvolutionShape& shape);
/// The same with a `name`.bias of zeros.
Convolution add_biased_convolution(const PartBuilder& build, const std::string& name,
                                   const ConvolutionShape& shape);

/// Batch norm over all but the channels (Ioffe and Szegedy 2015). Training moves the running
/// statistics by a tenth; evaluation uses them. The tape: its input and two numbers per channel.
struct BatchNorm {
  at::Tensor weight, bias, mean, variance;

  /// Takes [B, C, H, W] or [B, C]. Throws InputError if training sees a single value per channel,
  /// which has no variance.
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
};

BatchNorm add_batch_norm(const PartBuilder& build, const std::string& name, std::int64_t channels);

}  // namespace trireme::model
