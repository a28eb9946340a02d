// SPDX-License-Identifier: Apache-2.0
#include "architectures/convolution.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>

#include <cmath>

namespace trireme::model {

Maps after(const ConvolutionShape& shape, const Maps& maps) {
  return {.channels = shape.out,
          .side = (maps.side + 2 * shape.padding() - shape.side) / shape.stride + 1};
}

double work(const ConvolutionShape& shape, const Maps& maps) {
  const std::int64_t side = after(shape, maps).side;
  return static_cast<double>(shape.in * shape.side * shape.side) *
         static_cast<double>(shape.out * side * side);
}

at::Tensor Convolution::operator()(const at::Tensor& x_BCHW) const {
  if (x_BCHW.size(2) > 1 || x_BCHW.size(3) > 1)
    return at::conv2d(x_BCHW, weight, bias, shape.stride, shape.padding());
  // All taps but the middle one see only padding. oneDNN's gradients of those with a stride, in
  // bfloat16, read beyond the map.
  const auto middle = [](const at::Tensor& taps, int dimension) {
    return taps.narrow(dimension, taps.size(dimension) / 2, 1);
  };
  return at::conv2d(x_BCHW, middle(middle(weight, 2), 3), bias);
}

Convolution add_convolution(const PartBuilder& build, const std::string& name,
                            const ConvolutionShape& shape) {
  const auto fan_out = static_cast<double>(shape.out * shape.side * shape.side);
  return {.shape = shape,
          .weight = build.normal(name + ".weight", {shape.out, shape.in, shape.side, shape.side},
                                 std::sqrt(2.0 / fan_out)),
          .bias = {}};
}

Convolution add_biased_convolution(const PartBuilder& build, const std::string& name,
                                   const ConvolutionShape& shape) {
  Convolution convolution = add_convolution(build, name, shape);
  convolution.bias = build.constant(name + ".bias", {shape.out}, 0);
  return convolution;
}

at::Tensor BatchNorm::operator()(const at::Tensor& x, const Context& context) const {
  if (context.training && x.numel() / x.size(1) < 2) {
    throw InputError(
        "batch norm sees one value per channel, which has no variance: make train.micro_batch (or "
        "model.image_size) larger");
  }
  return at::batch_norm(x, weight, bias, mean, variance, context.training, /*momentum=*/0.1,
                        /*eps=*/1e-5, /*cudnn_enabled=*/true);
}

BatchNorm add_batch_norm(const PartBuilder& build, const std::string& name, std::int64_t channels) {
  return {.weight = build.float32_constant(name + ".weight", {channels}, 1),
          .bias = build.float32_constant(name + ".bias", {channels}, 0),
          .mean = build.buffer(name + ".running_mean", {channels}, 0),
          .variance = build.buffer(name + ".running_var", {channels}, 1)};
}

}  // namespace trireme::model
