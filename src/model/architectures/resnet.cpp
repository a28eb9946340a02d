// Residual networks (He et al. 2016): a stem, four groups of basic or bottleneck blocks, pooling
// and a linear head. In a bottleneck the 3x3 convolution has the stride, as in most
// implementations.
//
// With grain block, ReLUs and sums overwrite the new result of a batch norm in place, which no
// backward needs, so that a convolution with norm and ReLU saves two tensors of its output's size.
// With grain operator each is a node with an output of its own.
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
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::model {
namespace {

using config::ResnetSpec;

/// The network of one depth.
struct Plan {
  int depth;
  std::array<int, 4> blocks;  ///< per group
  bool has_bottlenecks;
};

constexpr std::array kPlans{Plan{18, {2, 2, 2, 2}, false}, Plan{34, {3, 4, 6, 3}, false},
                            Plan{50, {3, 4, 6, 3}, true}, Plan{101, {3, 4, 23, 3}, true},
                            Plan{152, {3, 8, 36, 3}, true}};

/// Channel factor of a bottleneck's last convolution.
constexpr std::int64_t kExpansion = 4;

/// A residual block.
struct Block {
  std::vector<ConvolutionShape> convolutions;
  std::optional<ConvolutionShape> shortcut;  ///< nothing: identity
};

const Plan& plan_of(int depth);
Block block_of(std::int64_t in, std::int64_t width, std::int64_t stride, bool is_bottleneck);
/// Adds a block's layer; returns the shape of its output for input `maps`.
Maps add_residual_block(ChainModel& model, const std::string& name, const Block& block,
                        const Maps& maps);
Maps add_stem(ChainModel& model, const ResnetSpec& spec);
void add_head(ChainModel& model, const ResnetSpec& spec, const Maps& maps);

/// Adds operators as the nodes of a graph. Parameters have the initial values that they have with
/// grain block.
class Operators {
 public:
  explicit Operators(ChainModel& model) : model_(model) {}
  /// Functions return the number of their output. `place` is that of the layer with grain block.
  int stem(const ResnetSpec& spec, Maps& maps);
  int block(const std::string& place, const Block& block, int x, Maps& maps);
  void head(const ResnetSpec& spec, int x, const Maps& maps);

 private:
  int normed(const std::string& place, const std::string& name, const ConvolutionShape& shape,
             int x, const Maps& maps);
  int relu(const std::string& name, int x);
  /// A node with weights, which are built at `place`.
  int add(const std::string& name, const std::string& place, std::string kind, double work,
          std::vector<int> inputs, std::function<Part(const PartBuilder&)> build);
  int add_plain(const std::string& name, std::string kind, std::vector<int> inputs, Part part);

  ChainModel& model_;
};

}  // namespace

ChainModel make_resnet(const ResnetSpec& spec) {
  const Plan& plan = plan_of(spec.depth);
  ChainModel model = image_chain(concat("resnet-", spec.depth, "x", spec.width), spec);
  const bool is_graph = spec.grain == "operator";
  Operators operators(model);
  Maps maps{.channels = spec.channels, .side = spec.image_size};
  int x = 0;
  if (is_graph)
    x = operators.stem(spec, maps);
  else
    maps = add_stem(model, spec);
  std::int64_t width = spec.width;
  for (std::size_t group = 0; group < plan.blocks.size(); ++group, width *= 2) {
    for (int i = 0; i < plan.blocks[group]; ++i) {
      const std::int64_t stride = group > 0 && i == 0 ? 2 : 1;
      const std::string place = concat("group", group, ".block", i);
      const Block block = block_of(maps.channels, width, stride, plan.has_bottlenecks);
      if (is_graph)
        x = operators.block(place, block, x, maps);
      else
        maps = add_residual_block(model, place, block, maps);
    }
  }
  if (is_graph)
    operators.head(spec, x, maps);
  else
    add_head(model, spec, maps);
  return model;
}

namespace {

const Plan& plan_of(int depth) {
  for (const Plan& plan : kPlans) {
    if (plan.depth == depth) return plan;
  }
  throw LogicError(concat("no residual network has the depth ", depth));
}

Block block_of(std::int64_t in, std::int64_t width, std::int64_t stride, bool is_bottleneck) {
  Block block;
  if (is_bottleneck) {
    block.convolutions = {{.in = in, .out = width, .side = 1},
                          {.in = width, .out = width, .side = 3, .stride = stride},
                          {.in = width, .out = kExpansion * width, .side = 1}};
  } else {
    block.convolutions = {{.in = in, .out = width, .side = 3, .stride = stride},
                          {.in = width, .out = width, .side = 3}};
  }
  const std::int64_t out = block.convolutions.back().out;
  if (stride != 1 || in != out)
    block.shortcut = ConvolutionShape{.in = in, .out = out, .side = 1, .stride = stride};
  return block;
}

/// A convolution followed by a batch norm.
struct NormedConvolution {
  Convolution convolution;
  BatchNorm norm;

  at::Tensor operator()(const at::Tensor& x, const Context& context) const {
    return norm(convolution(x), context);
  }
};

NormedConvolution add_normed(const PartBuilder& build, const std::string& name,
                             const ConvolutionShape& shape) {
  return {.convolution = add_convolution(build, name + ".conv", shape),
          .norm = add_batch_norm(build, name + ".norm", shape.out)};
}

Part residual(const PartBuilder& build, const Block& block) {
  std::vector<NormedConvolution> path;
  for (const ConvolutionShape& shape : block.convolutions)
    path.push_back(add_normed(build, concat("path", path.size()), shape));
  std::optional<NormedConvolution> shortcut;
  if (block.shortcut) shortcut = add_normed(build, "shortcut", *block.shortcut);
  return [path, shortcut](Values input, const Context& context) -> Values {
    at::Tensor x = input[0];
    for (std::size_t i = 0; i < path.size(); ++i) {
      x = path[i](x, context);
      if (i + 1 < path.size()) x.relu_();
    }
    x.add_(shortcut ? (*shortcut)(input[0], context) : input[0]);
    return {x.relu_()};
  };
}

Maps add_residual_block(ChainModel& model, const std::string& name, const Block& block,
                        const Maps& maps) {
  Maps now = maps;
  double multiply_adds = block.shortcut ? work(*block.shortcut, maps) : 0;
  for (const ConvolutionShape& shape : block.convolutions) {
    multiply_adds += work(shape, now);
    now = after(shape, now);
  }
  const std::string kind =
      concat("block ", maps.channels, " to ", now.channels, block.shortcut ? " by shortcut" : "");
  model.layers.push_back(layer_of(name, kind, multiply_adds, [block](const PartBuilder& build) {
    return residual(build, block);
  }));
  return now;
}

/// The paper's stem halves the side twice; the 3x3 stem for small images keeps it.
Maps add_stem(ChainModel& model, const ResnetSpec& spec) {
  const bool halves = spec.stem == "7x7";
  const ConvolutionShape shape{
      .in = spec.channels, .out = spec.width, .side = halves ? 7 : 3, .stride = halves ? 2 : 1};
  const auto build_stem = [shape, halves](const PartBuilder& build) -> Part {
    const NormedConvolution first = add_normed(build, "stem", shape);
    return [first, halves](Values input, const Context& context) -> Values {
      const at::Tensor x = first(input[0], context).relu_();
      return {halves ? at::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1) : x};
    };
  };
  const Maps image{.channels = spec.channels, .side = spec.image_size};
  model.layers.push_back(layer_of("stem", "stem", work(shape, image), build_stem));
  Maps maps = after(shape, image);
  if (halves) maps.side = (maps.side - 1) / 2 + 1;
  return maps;
}

void add_head(ChainModel& model, const ResnetSpec& spec, const Maps& maps) {
  const std::int64_t in = maps.channels, out = spec.classes;
  const auto build_head = [in, out](const PartBuilder& build) -> Part {
    const Linear classify =
        add_linear(build, "linear", in, out, std::sqrt(1.0 / static_cast<double>(in)));
    return [classify](Values input, const Context& context) -> Values {
      const at::Tensor mean_BC = input[0].mean({2, 3});
      return {cross_entropy(classify(mean_BC, context), context.target.at(0))};
    };
  };
  model.layers.push_back(layer_of("head", "head", static_cast<double>(in * out), build_head));
}

int Operators::stem(const ResnetSpec& spec, Maps& maps) {
  const bool halves = spec.stem == "7x7";
  const ConvolutionShape shape{
      .in = spec.channels, .out = spec.width, .side = halves ? 7 : 3, .stride = halves ? 2 : 1};
  const int normed = this->normed("stem", "stem", shape, 0, maps);
  maps = after(shape, maps);
  const int x = relu("stem.relu", normed);
  if (!halves) return x;
  maps.side = (maps.side - 1) / 2 + 1;
  return add_plain("stem.pool", "pool", {x}, [](Values input, const Context&) -> Values {
    return {at::max_pool2d(input[0], /*kernel_size=*/3, /*stride=*/2, /*padding=*/1)};
  });
}

int Operators::block(const std::string& place, const Block& block, int x, Maps& maps) {
  Maps now = maps;
  int y = x;
  for (std::size_t i = 0; i < block.convolutions.size(); ++i) {
    const std::string name = concat("path", i);
    y = normed(place, name, block.convolutions[i], y, now);
    now = after(block.convolutions[i], now);
    if (i + 1 < block.convolutions.size()) y = relu(concat(place, ".", name, ".relu"), y);
  }
  if (block.shortcut) x = normed(place, "shortcut", *block.shortcut, x, maps);
  maps = now;
  const int sum =
      add_plain(place + ".sum", "sum", {std::min(x, y), std::max(x, y)},
                [](Values input, const Context&) -> Values { return {input[0].add(input[1])}; });
  return relu(place + ".relu", sum);
}

void Operators::head(const ResnetSpec& spec, int x, const Maps& maps) {
  const int pooled = add_plain("pool", "mean", {x}, [](Values input, const Context&) -> Values {
    return {input[0].mean({2, 3})};
  });
  const std::int64_t in = maps.channels, out = spec.classes;
  add("head", "head", "head", static_cast<double>(in * out), {pooled},
      [in, out](const PartBuilder& build) -> Part {
        const Linear classify =
            add_linear(build, "linear", in, out, std::sqrt(1.0 / static_cast<double>(in)));
        return [classify](Values input, const Context& context) -> Values {
          return {cross_entropy(classify(input[0], context), context.target.at(0))};
        };
      });
}

int Operators::normed(const std::string& place, const std::string& name,
                      const ConvolutionShape& shape, int x, const Maps& maps) {
  const std::string whole = concat(place, ".", name);
  const std::string kind =
      concat("conv ", shape.in, " to ", shape.out, " of ", shape.side, " by ", shape.stride);
  const int convolved = add(whole + ".conv", place, kind, work(shape, maps), {x},
                            [name, shape](const PartBuilder& build) -> Part {
                              const Convolution convolution =
                                  add_convolution(build, name + ".conv", shape);
                              return [convolution](Values input, const Context&) -> Values {
                                return {convolution(input[0])};
                              };
                            });
  return add(whole + ".norm", place, concat("norm ", shape.out), 0, {convolved},
             [name, channels = shape.out](const PartBuilder& build) -> Part {
               const BatchNorm norm = add_batch_norm(build, name + ".norm", channels);
               return [norm](Values input, const Context& context) -> Values {
                 return {norm(input[0], context)};
               };
             });
}

int Operators::relu(const std::string& name, int x) {
  return add_plain(name, "relu", {x},
                   [](Values input, const Context&) -> Values { return {input[0].relu()}; });
}

int Operators::add(const std::string& name, const std::string& place, std::string kind, double work,
                   std::vector<int> inputs, std::function<Part(const PartBuilder&)> build) {
  LayerRecipe recipe = layer_of(place, std::move(kind), work, std::move(build));
  recipe.name = name;
  model_.layers.push_back(std::move(recipe));
  model_.inputs.push_back(std::move(inputs));
  return model_.length();
}

int Operators::add_plain(const std::string& name, std::string kind, std::vector<int> inputs,
                         Part part) {
  const int number = add(name, name, std::move(kind), 0, std::move(inputs),
                         [part = std::move(part)](const PartBuilder&) { return part; });
  model_.layers.back().has_weights = false;
  return number;
}

}  // namespace
}  // namespace trireme::model
