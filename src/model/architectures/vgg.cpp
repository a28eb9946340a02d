// VGG (Simonyan and Zisserman 2015), optionally with batch norm: one layer per convolution, ReLU
// and the max pool that follows it, then two hidden linear layers and the head.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/convolution.h"
#include "architectures/images.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace trireme::model {
namespace {

using config::VggSpec;

/// The network of one depth.
struct Plan {
  int depth;
  std::array<int, 5> convolutions;  ///< per group, which ends with a max pool
};

constexpr std::array kPlans{Plan{11, {1, 1, 2, 2, 2}}, Plan{13, {2, 2, 2, 2, 2}},
                            Plan{16, {2, 2, 3, 3, 3}}, Plan{19, {2, 2, 4, 4, 4}}};
/// Channels of a group, in widths.
constexpr std::array<std::int64_t, 5> kWidths{1, 2, 4, 8, 8};
/// Side to which maps are pooled before the classifier, if they are larger.
constexpr std::int64_t kLastSide = 7;
/// Values of the classifier's hidden layers, in widths.
constexpr std::int64_t kHiddenWidths = 64;

const Plan& plan_of(int depth);
/// Adds a layer; returns the shape of its output for input `maps`.
Maps add_convolution_layer(ChainModel& model, const VggSpec& spec, const std::string& name,
                           std::int64_t out, bool ends_group, const Maps& maps);
void add_classification(ChainModel& model, const VggSpec& spec, const Maps& maps);

}  // namespace

ChainModel make_vgg(const VggSpec& spec) {
  const Plan& plan = plan_of(spec.depth);
  ChainModel model = image_chain(concat("vgg-", spec.depth, "x", spec.width), spec);
  Maps maps{.channels = spec.channels, .side = spec.image_size};
  for (std::size_t group = 0; group < plan.convolutions.size(); ++group) {
    for (int i = 0; i < plan.convolutions[group]; ++i) {
      const bool ends_group = i + 1 == plan.convolutions[group];
      maps = add_convolution_layer(model, spec, concat("group", group, ".conv", i),
                                   kWidths[group] * spec.width, ends_group, maps);
    }
  }
  add_classification(model, spec, maps);
  return model;
}

namespace {

const Plan& plan_of(int depth) {
  for (const Plan& plan : kPlans) {
    if (plan.depth == depth) return plan;
  }
  throw LogicError(concat("no VGG has the depth ", depth));
}

/// The tape: the convolution's output if batch norm follows, the ReLU's output, and if a pool ends
/// the layer the indices of its maxima, 8 bytes each.
Part convolved(const PartBuilder& build, const VggSpec& spec, const ConvolutionShape& shape,
               bool ends_group) {
  const Convolution convolution = add_biased_convolution(build, "conv", shape);
  const BatchNorm norm = spec.batch_norm ? add_batch_norm(build, "norm", shape.out) : BatchNorm{};
  return [convolution, norm, ends_group](Values input, const Context& context) -> Values {
    at::Tensor x = convolution(input[0]);
    if (norm.weight.defined()) x = norm(x, context);
    x.relu_();
    return {ends_group ? at::max_pool2d(x, /*kernel_size=*/2) : x};
  };
}

Maps add_convolution_layer(ChainModel& model, const VggSpec& spec, const std::string& name,
                           std::int64_t out, bool ends_group, const Maps& maps) {
  const ConvolutionShape shape{.in = maps.channels, .out = out};
  model.layers.push_back(
      layer_of(name, concat("conv ", shape.in, " to ", out, ends_group ? " and pool" : ""),
               work(shape, maps), [spec, shape, ends_group](const PartBuilder& build) {
                 return convolved(build, spec, shape, ends_group);
               }));
  return {.channels = out, .side = ends_group ? maps.side / 2 : maps.side};
}

Linear add_rectified_linear(const PartBuilder& build, std::int64_t in, std::int64_t out) {
  return add_linear(build, "linear", in, out, std::sqrt(2.0 / static_cast<double>(in)));
}

/// Maps or values to dropout(relu(linear)). Maps are pooled to `side` first.
Part hidden(const PartBuilder& build, std::int64_t in, std::int64_t out, std::int64_t side,
            double probability) {
  const Linear linear = add_rectified_linear(build, in, out);
  return [linear, side, probability](Values input, const Context& context) -> Values {
    at::Tensor x = take(input, 0);
    if (x.dim() == 4 && x.size(2) != side) x = at::adaptive_avg_pool2d(x, {side, side});
    return {dropout(linear(x.flatten(1), context).relu_(), probability, context)};
  };
}

Part head(const PartBuilder& build, std::int64_t in, std::int64_t classes) {
  const Linear classify = add_rectified_linear(build, in, classes);
  return [classify](Values input, const Context& context) -> Values {
    return {cross_entropy(classify(input[0], context), context.target.at(0))};
  };
}

void add_classification(ChainModel& model, const VggSpec& spec, const Maps& maps) {
  const std::int64_t side = std::min(kLastSide, maps.side);
  const std::int64_t width = kHiddenWidths * spec.width, classes = spec.classes;
  std::int64_t in = maps.channels * side * side;
  for (int i = 0; i < 2; ++i) {
    const auto build_hidden = [in, width, side, p = spec.dropout](const PartBuilder& build) {
      return hidden(build, in, width, side, p);
    };
    model.layers.push_back(layer_of(concat("hidden", i), concat("hidden ", in),
                                    static_cast<double>(in * width), build_hidden));
    in = width;
  }
  model.layers.push_back(
      layer_of("head", "head", static_cast<double>(width * classes),
               [width, classes](const PartBuilder& build) { return head(build, width, classes); }));
}

}  // namespace
}  // namespace trireme::model
