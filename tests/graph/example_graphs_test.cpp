// The graphs under configs/: that they are graphs of a training step, and have the published sizes.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/graph.h"
#include "trireme/graph/problem.h"
#include "trireme/graph/schedule.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace trireme::graph {
namespace {

const std::filesystem::path kConfigs = TRIREME_SOURCE_DIR "/configs";

Graph example(const std::string& name) {
  return load_graph(kConfigs / "graphs" / (name + ".yaml"));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs / folder)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  return names;
}

bool is_one_of(const std::string& name, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

/// Of forward nodes or backward ones.
double flops(const Graph& graph, bool is_backward) {
  double sum = 0;
  for (const Node& node : graph.nodes) sum += node.is_backward == is_backward ? node.flops : 0;
  return sum;
}

/// Of forward nodes with one of these in their name.
double forward_flops(const Graph& graph, const std::vector<std::string>& parts) {
  double sum = 0;
  for (const Node& node : graph.nodes)
    sum += !node.is_backward && is_one_of(node.name, parts) ? node.flops : 0;
  return sum;
}

const Node& named(const Graph& graph, const std::string& name) {
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.name == name; });
}

std::vector<std::string> inputs_of(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const int input : named(graph, name).inputs) names.push_back(graph.node(input).name);
  return names;
}

TEST(ExampleGraphs, HaveAsManyNodesAsTheirOperations) {
  // Forward nodes: the input, operations or blocks, the loss. Backward: all of them but the loss.
  const std::map<std::string, int> forward{{"vgg-16-cifar", 1 + 13 * 2 + 5 + 5 + 1},
                                           {"vgg-16", 1 + 13 * 2 + 5 + 5 + 1},
                                           {"resnet-18-cifar", 1 + 3 + 8 * 7 + 3 * 2 + 2 + 1},
                                           {"resnet-18", 1 + 4 + 8 * 7 + 3 * 2 + 2 + 1},
                                           {"resnet-50", 1 + 4 + 16 * 10 + 4 * 2 + 2 + 1},
                                           {"bert-base", 1 + 2 + 12 * 14 + 3 + 1},
                                           {"bert-block", 1 + 14 + 1},
                                           {"resnet-18-cifar-blocks", 1 + 1 + 8 * 3 + 3 + 1 + 1},
                                           {"resnet-18-blocks", 1 + 1 + 8 * 3 + 3 + 1 + 1},
                                           {"resnet-50-blocks", 1 + 1 + 16 * 4 + 4 + 1 + 1},
                                           {"bert-base-blocks", 1 + 1 + 12 * 2 + 1 + 1}};
  std::vector<std::string> names;
  for (const auto& [name, count] : forward) {
    EXPECT_EQ(example(name).size(), 2 * count - 1) << name;
    names.push_back(name);
  }
  EXPECT_THAT(names_in("graphs"), testing::UnorderedElementsAreArray(names));
}

TEST(ExampleGraphs, HaveAGradientForEveryForwardNodeButTheLoss) {
  for (const std::string& name : names_in("graphs")) {
    SCOPED_TRACE(name);
    const Graph graph = example(name);
    EXPECT_EQ(graph.name, name);
    const int count = (graph.size() + 1) / 2;
    EXPECT_EQ(graph.node(count - 1).name, "loss");
    for (int index = 0; index < count; ++index) {
      const Node& node = graph.node(index);
      EXPECT_FALSE(node.is_backward) << node.name;
      if (index == count - 1) continue;
      const Node& gradient = graph.node(2 * count - 2 - index);
      EXPECT_TRUE(gradient.is_backward) << gradient.name;
      EXPECT_EQ(gradient.name, node.name + ".grad");
      // At the grain of blocks a node leaves more than the output that is passed on.
      EXPECT_LE(gradient.bytes, node.bytes) << node.name;
      EXPECT_EQ(gradient.bytes == Bytes(0), index == 0) << node.name;
    }
  }
}

TEST(ExampleGraphs, HaveNoValueThatNobodyReads) {
  for (const std::string& name : names_in("graphs")) {
    const Graph graph = example(name);
    const auto users = users_of(graph);
    for (int index = 0; index < graph.size(); ++index) {
      const std::string& node = graph.node(index).name;
      EXPECT_EQ(users[static_cast<std::size_t>(index)].empty(),
                node == "loss" || node == "input.grad")
          << name << ": " << node;
    }
  }
}

/// Multiply-adds of the convolutions of a ResNet whose first blocks see images of this side, and of
/// its last product.
double resnet_products(double side, double first, const std::vector<int>& blocks, bool is_deep,
                       double classes) {
  double sum = first, channels = 64, width = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage, width *= 2) {
    const double out = is_deep ? 4 * width : width;
    for (int block = 0; block < blocks[stage]; ++block) {
      const double before = side * side;
      if (stage > 0 && block == 0) side /= 2;
      const double area = side * side;
      if (is_deep)  // 1 x 1, 3 x 3 with the stride, 1 x 1
        sum += before * channels * width + area * 9 * width * width + area * width * out;
      else
        sum += area * 9 * channels * width + area * 9 * width * width;
      if (channels != out) sum += area * channels * out;
      channels = out;
    }
  }
  return sum + channels * classes;
}

TEST(ExampleGraphs, HaveTheProductsOfTheirResnet) {
  const std::vector<int> r18{2, 2, 2, 2}, r50{3, 4, 6, 3};
  const double stem = 112.0 * 112 * 49 * 3 * 64, small_stem = 32.0 * 32 * 9 * 3 * 64;
  const double products18 = resnet_products(56, stem, r18, false, 1000);
  const double products50 = resnet_products(56, stem, r50, true, 1000);
  // torchvision's tables of models, 10^9 multiply-adds: 1.81 and 4.09.
  EXPECT_NEAR(products18 / 1e9, 1.81, 0.005);
  EXPECT_NEAR(products50 / 1e9, 4.09, 0.005);

  // A convolution, two FLOP per multiply-add; the last product has a bias.
  const auto products = [](const std::string& name) {
    const Graph graph = example(name);
    double sum = forward_flops(graph, {".conv", "fc"});
    for (const Node& node : graph.nodes)
      sum += !node.is_backward && node.name.ends_with(".shortcut") ? node.flops : 0;
    return sum;
  };
  EXPECT_EQ(products("resnet-18"), 2 * products18 + 1000);
  EXPECT_EQ(products("resnet-50"), 2 * products50 + 1000);
  EXPECT_EQ(products("resnet-18-cifar"), 2 * resnet_products(32, small_stem, r18, false, 10) + 10);
}

TEST(ExampleGraphs, HaveTheProductsOfVgg) {
  struct Vgg {
    std::string name;
    double side, classes;
  };
  for (const auto& [name, full_side, classes] :
       {Vgg{"vgg-16-cifar", 32, 10}, {"vgg-16", 224, 1000}}) {
    double side = full_side, channels = 3, sum = 0, biases = 2 * 4096 + classes;
    for (const auto& [count, width] :
         std::vector<std::pair<int, double>>{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
      for (int k = 0; k < count; ++k, channels = width) {
        sum += side * side * 9 * channels * width;
        biases += side * side * width;
      }
      side /= 2;
    }
    sum += side * side * 512 * 4096 + 4096.0 * 4096 + 4096 * classes;
    EXPECT_EQ(forward_flops(example(name), {"conv", "fc"}), 2 * sum + biases) << name;
    // torchvision: 15.47 * 10^9 multiply-adds.
    if (name == "vgg-16") {
      EXPECT_NEAR(sum / 1e9, 15.47, 0.005);
    }
  }
}

TEST(ExampleGraphs, HaveTheProductsOfBert) {
  // Narayanan et al. 2021, appendix: 24 B s h^2 + 4 B s^2 h FLOP per block; biases: 9 per row and
  // column of h. A pooler on one token and a classifier of two classes.
  const double s = 128, h = 768;
  const double block = 24 * s * h * h + 4 * s * s * h + 9 * s * h;
  const std::vector<std::string> products{"query", "key",        "value", "scores",
                                          "mixed", "projection", "fc",    "classifier"};
  EXPECT_EQ(forward_flops(example("bert-block"), products), block);
  const Graph bert = example("bert-base");
  EXPECT_EQ(forward_flops(bert, products) + named(bert, "pooler").flops,
            12 * block + (2 * h * h + h) + (4 * h + 2));
}

TEST(ExampleGraphs, HaveBackwardsOfAboutTwiceTheirForwards) {
  // Two products for one, but for the first layer's, whose input needs no gradient.
  for (const std::string& name : names_in("graphs")) {
    const Graph graph = example(name);
    const double ratio = flops(graph, true) / flops(graph, false);
    EXPECT_GT(ratio, name == "bert-block" ? 1.75 : 1.9) << name;
    EXPECT_LT(ratio, 2.05) << name;
  }
}

TEST(ExampleGraphs, CostTheSameAtBothGrains) {
  for (const std::string name : {"resnet-18-cifar", "resnet-18", "resnet-50", "bert-base"}) {
    const Graph fine = example(name), coarse = example(name + "-blocks");
    EXPECT_EQ(flops(fine, false), flops(coarse, false)) << name;
    // The mask of a sum is applied twice, once for each of its inputs; sums of gradients within a
    // block are not counted.
    EXPECT_NEAR(flops(coarse, true) / flops(fine, true), 1, 2e-3) << name;
    EXPECT_LT(coarse.size(), fine.size() / 2) << name;
  }
}

TEST(ExampleGraphs, ReadInABackwardWhatItsOperationsNeed) {
  using Names = std::vector<std::string>;
  const Graph vgg = example("vgg-16");
  // Of the pooling: input and output; of relu: its output; of a convolution: its input.
  EXPECT_EQ(inputs_of(vgg, "relu1_2.grad"), (Names{"relu1_2", "pool1", "pool1.grad"}));
  EXPECT_EQ(inputs_of(vgg, "conv1_2.grad"), (Names{"relu1_2", "relu1_2.grad"}));
  EXPECT_EQ(inputs_of(vgg, "relu1_1.grad"), (Names{"relu1_1", "conv1_2.grad"}));
  EXPECT_EQ(inputs_of(vgg, "fc8.grad"), (Names{"fc8"}));
  EXPECT_EQ(inputs_of(vgg, "input.grad"), (Names{"input", "conv1_1.grad"}));

  const Graph resnet = example("resnet-18");
  // Of a norm: its input; of a sum: nothing. A block's input is read twice.
  EXPECT_EQ(inputs_of(resnet, "stage1.block1.conv1.grad"),
            (Names{"stage1.block1.conv1", "stage1.block1.norm1.grad"}));
  EXPECT_EQ(inputs_of(resnet, "stage1.block1.norm2.grad"), (Names{"stage1.block1.add.grad"}));
  EXPECT_EQ(inputs_of(resnet, "stage1.block0.relu.grad"),
            (Names{"stage1.block0.relu", "stage1.block1.add.grad", "stage1.block1.conv1.grad"}));

  const Graph bert = example("bert-block");
  EXPECT_EQ(inputs_of(bert, "block.query.grad"), (Names{"block.key", "block.scores.grad"}));
  EXPECT_EQ(inputs_of(bert, "block.scores.grad"), (Names{"block.softmax", "block.softmax.grad"}));
  EXPECT_EQ(inputs_of(bert, "block.fc1.grad"), (Names{"block.fc1", "block.gelu.grad"}));
}

TEST(ExampleGraphs, LeaveInABlockWhatItsBackwardNeeds) {
  const Graph graph = example("resnet-18-blocks");
  // 64 channels of 56 x 56 in float32: what a norm reads, and the output.
  const Bytes image(64 * 56 * 56 * 4);
  EXPECT_EQ(named(graph, "stage1.block0.unit1").bytes, image * 2);
  EXPECT_EQ(named(graph, "stage1.block0.sum").bytes, image);
  EXPECT_EQ(named(graph, "stage1.block0.unit1.grad").bytes, image);
  // Queries, keys and values, probabilities, their product with values, what the norm reads, and
  // the output.
  const std::int64_t rows = 128, width = 768, heads = 12;
  EXPECT_EQ(named(example("bert-base-blocks"), "block3.attention").bytes,
            Bytes(4 * (6 * rows * width + heads * rows * rows)));
}

/// The block of indented lines of a page that begins with this line, without its indent.
std::string block_of(const std::string& page, const std::string& first) {
  std::istringstream lines(io::read_file(TRIREME_SOURCE_DIR "/docs/" + page));
  std::string block;
  for (std::string line; std::getline(lines, line);) {
    const bool is_code = line.starts_with("    ");
    if (is_code && (!block.empty() || line.substr(4) == first)) block += line.substr(4) + "\n";
    if (!is_code && !block.empty()) break;
  }
  return block;
}

TEST(PageOfGraphs, ShowsAGraphAndASchedule) {
  const Graph graph =
      read_graph(io::parse(block_of("graphs.md", "format: trireme-graph/1"), "graphs.md"));
  EXPECT_EQ(graph.size(), 9);
  const std::string compact = block_of("graphs.md", "c0-1 o0 c2-7 i0 c8");
  const std::string text = to_text(parse_schedule(compact, graph), graph);
  EXPECT_TRUE(text.starts_with(block_of("graphs.md", "compute 0  # image"))) << text;
}

TEST(ExampleGraphs, CanBeAskedOfTheSmallDevices) {
  for (const char* const device : {"mkr1000", "nrf52840", "raspberry-pi-4b", "jetson-tx2"}) {
    const chain::RankSpec rank =
        chain::load_platform(kConfigs / "platforms" / (std::string(device) + ".yaml"))
            .ranks.front();
    const Problem problem = problem_of(example("resnet-18-cifar"), rank, Lanes::kInTurn);
    double seconds = 0, joules = 0;
    for (const NodeCost& cost : problem.costs) {
      seconds += cost.time.count();
      joules += cost.energy.count();
    }
    const double all = flops(problem.graph, false) + flops(problem.graph, true);
    EXPECT_NEAR(seconds, all / rank.flops.count(), 1e-9 * seconds) << device;
    EXPECT_NEAR(joules, all / rank.flops_energy.count(), 1e-9 * joules) << device;
    EXPECT_EQ(problem.capacity, Bytes(32'000'000'000)) << device;
  }
}

}  // namespace
}  // namespace trireme::graph
