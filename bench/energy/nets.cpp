// SPDX-License-Identifier: Apache-2.0
#include "nets.h"

#include "poet/graphs.h"

#include <cstdint>
#include <limits>

namespace trireme::poet {
namespace {

constexpr int kFloat = 4;

/// An image in a net of convolutions.
struct Image {
  int node = 0, channels = 3, side = 32;
  std::int64_t values() const { return std::int64_t{channels} * side * side; }
};

class Net {
 public:
  Image convolution(Image in, int channels, int stride = 1, int kernel = 3) {
    const Image out{0, channels, in.side / stride};
    return add({in.node}, out, 2.0 * kernel * kernel * in.channels * as_double(out.values()));
  }
  Image pointwise(Image in) { return add({in.node}, in, as_double(in.values())); }
  Image sum(Image a, Image b) { return add({a.node, b.node}, a, as_double(a.values())); }
  Image pool(Image in) {
    const Image out{0, in.channels, in.side / 2};
    return add({in.node}, out, as_double(in.values()));
  }
  Image linear(Image in, int features) {
    return add({in.node}, {0, features, 1}, 2.0 * features * as_double(in.values()));
  }
  graph::Graph with_backward(Bytes input) const { return poet::with_backward(input, layers_); }

 private:
  static double as_double(std::int64_t values) { return static_cast<double>(values); }
  Image add(std::vector<int> inputs, Image out, double flops) {
    layers_.push_back({std::move(inputs), Bytes(out.values() * kFloat), flops});
    out.node = static_cast<int>(layers_.size());
    return out;
  }
  std::vector<Layer> layers_;
};

// A convolution with its norm and ReLU is one node, or is three.
Image block_part(Net& net, Image in, int channels, int stride, bool is_fine, bool has_relu) {
  Image out = net.convolution(in, channels, stride);
  if (is_fine) out = net.pointwise(out);
  return is_fine && has_relu ? net.pointwise(out) : out;
}

graph::Graph named(std::string name, graph::Graph graph) {
  graph.name = std::move(name);
  return graph;
}

graph::Graph resnet(bool is_fine) {
  Net net;
  Image at = block_part(net, {}, 64, 1, is_fine, true);
  for (const int channels : {64, 128, 256, 512}) {
    for (const bool is_first : {true, false}) {
      const int stride = is_first && channels > 64 ? 2 : 1;
      Image branch = block_part(net, at, channels, stride, is_fine, true);
      branch = block_part(net, branch, channels, 1, is_fine, false);
      if (stride == 2) {
        at = net.convolution(at, channels, stride, 1);
        if (is_fine) at = net.pointwise(at);
      }
      at = net.sum(branch, at);
      if (is_fine) at = net.pointwise(at);
    }
  }
  net.linear(net.pool(at), 10);
  return named("resnet18", net.with_backward(Bytes(3 * 32 * 32 * kFloat)));
}

}  // namespace

graph::Graph vgg16() {
  Net net;
  Image at;
  for (const int channels : {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512,
                             512, 0}) {
    at = channels == 0 ? net.pool(at) : net.pointwise(net.convolution(at, channels));
  }
  at = net.pointwise(at);
  for (int i = 0; i < 2; ++i) at = net.pointwise(net.pointwise(net.linear(at, 4096)));
  net.pointwise(net.linear(at, 10));
  return named("vgg16", net.with_backward(Bytes(3 * 32 * 32 * kFloat)));
}

graph::Graph bert24() {
  constexpr double kTokens = 128, kWidth = 1024;
  const Bytes values(static_cast<std::int64_t>(kTokens * kWidth) * kFloat);
  std::vector<Layer> blocks(25, {.bytes = values,
                                 .cost = 24 * kTokens * kWidth * kWidth +
                                         4 * kTokens * kTokens * kWidth});
  blocks.front().cost = 3 * kTokens * kWidth;
  return named("bert24", chain_with_backward(Bytes(128 * kFloat), blocks));
}

graph::Graph resnet18() {
  return resnet(false);
}

graph::Graph resnet18_fine() {
  return resnet(true);
}

graph::Problem on_m4f(graph::Graph graph) {
  constexpr double kFlopsPerSecond = 6.370e6, kFlopsPerJoule = 5.8e8;
  constexpr Watts kCopying{0.33};
  graph::Problem problem;
  problem.capacity = Bytes(std::int64_t{1} << 40);
  for (const graph::Node& node : graph.nodes) {
    const Seconds out = Seconds(1.13e-4) + node.bytes / BytesPerSecond(4.44e6);
    const Seconds in = Seconds(1.09e-4) + node.bytes / BytesPerSecond(4.617e6);
    problem.costs.push_back({.time = Seconds(node.flops / kFlopsPerSecond),
                             .out = out,
                             .in = in,
                             .energy = Joules(node.flops / kFlopsPerJoule),
                             .out_energy = kCopying * out,
                             .in_energy = kCopying * in});
  }
  problem.graph = std::move(graph);
  return problem;
}

}  // namespace trireme::poet
