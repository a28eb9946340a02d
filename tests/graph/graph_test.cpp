// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/graph.h"

#include "graph/reading.h"
#include "support/temporary_folder.h"

#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace trireme::graph {
namespace {

using support::input_error;

const std::string kTwoNodes =
    "  - {name: x, output_bytes: 8}\n  - {name: y, inputs: [x], output_bytes: 4, flops: 3}\n";

Graph small_graph() {
  return {.name = "g",
          .nodes = {{.name = "a", .bytes = Bytes(8)},
                    {.name = "b", .inputs = {0}, .bytes = Bytes(4), .flops = 3},
                    {.name = "c", .inputs = {0, 1}, .bytes = Bytes(2), .time = Seconds(0.5)},
                    {.name = "b.grad",
                     .inputs = {2},
                     .bytes = Bytes(4),
                     .flops = 7,
                     .energy = Joules(2),
                     .is_backward = true}}};
}

TEST(ReadGraph, ReadsEveryField) {
  const Graph graph = read(
      "format: trireme-graph/1\n"
      "name: two ways\n"
      "nodes:\n"
      "  - {name: x, output_bytes: 3MB}\n"
      "  - {name: conv, inputs: [x], output_bytes: 64KiB, flops: 1.5e9}\n"
      "  - {name: add, inputs: [conv, x], output_bytes: 64KiB, flops: 5, compute_s: 2us,\n"
      "     compute_j: 1e-3}\n"
      "  - {name: conv.grad, inputs: [add], output_bytes: 0, compute_s: 0.25, backward: true}\n");

  EXPECT_EQ(graph,
            (Graph{.name = "two ways",
                   .nodes = {{.name = "x", .bytes = Bytes(3'000'000)},
                             {.name = "conv", .inputs = {0}, .bytes = Bytes(65536), .flops = 1.5e9},
                             {.name = "add",
                              .inputs = {0, 1},
                              .bytes = Bytes(65536),
                              .flops = 5,
                              .time = Seconds(2e-6),
                              .energy = Joules(1e-3)},
                             {.name = "conv.grad",
                              .inputs = {2},
                              .bytes = Bytes(0),
                              .time = Seconds(0.25),
                              .is_backward = true}}}));
}

TEST(ReadGraph, TellsAnUnknownTimeFromNone) {
  const Graph graph = read(kHead +
                           "  - {name: x, output_bytes: 1}\n"
                           "  - {name: y, inputs: [x], output_bytes: 1, compute_s: 0}\n");
  EXPECT_EQ(graph.node(0).time, std::nullopt);
  EXPECT_EQ(graph.node(1).time, Seconds(0));
  EXPECT_EQ(graph.node(1).energy, std::nullopt);
}

TEST(ReadGraph, ReadsJsonToo) {
  EXPECT_EQ(read_graph(io::parse(R"({"format": "trireme-graph/1", "name": "g", "nodes": [
                    {"name": "x", "output_bytes": 8},
                    {"name": "y", "inputs": ["x"], "output_bytes": 4, "flops": 3}]})",
                                 "g.json")),
            read(kHead + kTwoNodes));
}

TEST(UsersOf, AreTheLaterNodesThatReadAnOutput) {
  EXPECT_EQ(users_of(small_graph()), (std::vector<std::vector<int>>{{1, 2}, {2}, {3}, {}}));
}

Graph random_graph(std::mt19937_64& random) {
  const auto number = [&] {
    return std::pow(10.0, std::uniform_real_distribution<double>(-9, 9)(random));
  };
  const std::vector<std::string> words{"conv", "a b", "true", "x: {y, z}", "[", "\"'\\ \u5c42", ""};
  Graph graph{.name = words[random() % words.size()], .nodes = {}};
  for (std::size_t left = 1 + random() % 20; left > 0; --left) {
    const int index = graph.size();
    Node node{.name = words[random() % words.size()] + std::to_string(index),
              .bytes = Bytes(static_cast<std::int64_t>(random() >> (10 + random() % 54)))};
    node.is_backward = index > 0 && (graph.nodes.back().is_backward || random() % 4 == 0);
    for (int input = 0; input < index; ++input) {
      if (random() % 4 == 0 && (node.is_backward || !graph.node(input).is_backward))
        node.inputs.push_back(input);
    }
    if (random() % 2 == 0) node.flops = number();
    if (random() % 2 == 0) node.time = Seconds(number());
    if (random() % 2 == 0) node.energy = Joules(number());
    graph.nodes.push_back(node);
  }
  return graph;
}

TEST(ToYaml, ReadsBackAsTheSameGraph) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 300; ++i) {
    const Graph graph = random_graph(random);
    EXPECT_EQ(read(to_yaml(graph)), graph) << to_yaml(graph);
  }
}

TEST(ToYaml, IsOneLinePerNode) {
  EXPECT_EQ(to_yaml(small_graph()),
            kHead +
                "  - {name: a, output_bytes: 8}\n"
                "  - {name: b, inputs: [a], output_bytes: 4, flops: 3}\n"
                "  - {name: c, inputs: [a, b], output_bytes: 2, compute_s: 0.5}\n"
                "  - {name: b.grad, inputs: [c], output_bytes: 4, flops: 7, compute_j: 2, "
                "backward: true}\n");
}

TEST(LoadGraph, ReadsWhatWasSaved) {
  const support::TemporaryFolder folder;
  io::write_file(folder / "graph.yaml", to_yaml(small_graph()));

  EXPECT_EQ(load_graph(folder / "graph.yaml"), small_graph());
}

TEST(LoadGraph, RefusesALargerFileUnread) {
  const support::TemporaryFolder folder;
  const auto file = folder / "g.yaml";
  io::write_file(file, kHead + kTwoNodes);
  std::filesystem::resize_file(file, 500 << 20);

  EXPECT_EQ(input_error([&] { load_graph(file); }),
            file.string() + ": is 500 MiB, must be at most 64.0 MiB");
}

TEST(Digest, IsTheSameForEqualGraphsWhateverTheNames) {
  Graph graph = small_graph();
  graph.name = "other";
  graph.nodes[1].name = "other";
  EXPECT_EQ(digest(graph), digest(small_graph()));
}

TEST(Digest, DiffersWhenAnythingElseDoes) {
  const std::vector<std::function<void(Graph&)>> changes{
      [](Graph& g) { g.nodes.pop_back(); },
      [](Graph& g) { std::swap(g.nodes[0].bytes, g.nodes[1].bytes); },
      [](Graph& g) { g.nodes[1].inputs.clear(); },
      [](Graph& g) { g.nodes[2].inputs = {1}; },
      [](Graph& g) { g.nodes[1].bytes += Bytes(1); },
      [](Graph& g) { g.nodes[1].flops = std::nextafter(g.nodes[1].flops, 9.0); },
      [](Graph& g) { g.nodes[1].time = Seconds(0); },
      [](Graph& g) { *g.nodes[2].time += Seconds(1); },
      [](Graph& g) { g.nodes[1].energy = Joules(0); },
      [](Graph& g) { *g.nodes[3].energy += Joules(1); },
      [](Graph& g) { g.nodes[3].is_backward = false; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Graph changed = small_graph();
    changes[i](changed);
    EXPECT_NE(digest(changed), digest(small_graph())) << i;
  }
}

TEST(Digest, DoesNotKnowANegativeZero) {
  Graph graph = small_graph();
  graph.nodes[2].time = Seconds(0);
  graph.nodes[3].energy = Joules(0);
  Graph negative = graph;
  negative.nodes[2].time = Seconds(-0.0);
  negative.nodes[3].energy = Joules(-0.0);
  EXPECT_EQ(digest(negative), digest(graph));
}

struct Broken {
  std::string text;
  std::string message;
};

TEST(ReadGraph, RefusesABrokenHead) {
  const std::vector<Broken> table{
      {"", "1: format is missing"},
      {"format: trireme-chain/1\n", "1: format is trireme-chain/1, must be trireme-graph/1"},
      {"format: trireme-graph/1\n", "1: name is missing"},
      {"format: trireme-graph/1\nname: [g]\n", "2: name is a list, must be text"},
      {"format: trireme-graph/1\nname: g\n", "1: nodes is missing"},
      {"format: trireme-graph/1\nname: g\nlayers: []\n", "1: nodes is missing"},
      {kHead, "3: nodes is empty, must be a list"},
      {kHead + "  []\n", "3: nodes has 0 nodes, must have from 1 to 100000"},
      {kHead + kTwoNodes + "node: 5\n", "6: node is not a key here (did you mean 'nodes'?)"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal(text), "g.yaml:" + message);
}

TEST(ReadGraph, RefusesABrokenNodeByNumberAndName) {
  const std::vector<Broken> table{
      {"5", "node 2 is 5, must be a map (key: value)"},
      {"{output_bytes: 3}", "node 2.name is missing"},
      {"{name: [b], output_bytes: 3}", "node 2.name is a list, must be text"},
      {"{name: \"b\\e[2J\", output_bytes: 3}",
       "node 2.name holds a control character (\"b\\u001b[2J\"), must be a name without any"},
      {"{name: y, output_bytes: 3}",
       "node 2.name is y, the name of node 1; every node must have a name of its own"},
      {"{name: z}", "node 2 (z).output_bytes is missing"},
      {"{name: z, output_bytes: -1}",
       "node 2 (z).output_bytes is -1, must be a size such as 2GiB or 4096 (bytes)"},
      {"{name: z, output_bytes: 1, flop: 1}",
       "node 2 (z).flop is not a key here (did you mean 'flops'?)"},
      {"{name: z, output_bytes: 1, seconds: 1}",
       "node 2 (z).seconds is not a key here (known: name, inputs, output_bytes, transient_bytes, "
       "flops, compute_s, "
       "compute_j, backward)"},
      {"{name: z, output_bytes: 1, flops: -1}",
       "node 2 (z).flops is -1, must be a number from 0 to 1e+21"},
      {"{name: z, output_bytes: 1, flops: inf}",
       "node 2 (z).flops is inf, must be a number from 0 to 1e+21"},
      {"{name: z, output_bytes: 1, compute_s: nan}",
       "node 2 (z).compute_s is nan, must be a time such as 1.5ms or 60 (seconds)"},
      {"{name: z, output_bytes: 1, compute_s: 1e10}",
       "node 2 (z).compute_s is 1e10, must be at most 1e+09 s"},
      {"{name: z, output_bytes: 1, compute_j: -2}",
       "node 2 (z).compute_j is -2, must be a number from 0 to 1e+12"},
      {"{name: z, output_bytes: 1, backward: yes}",
       "node 2 (z).backward is yes, must be true or false"},
      {"{name: z, inputs: x, output_bytes: 1, flops: 1}", "node 2 (z).inputs is x, must be a list"},
      {"{name: z, inputs: [x], output_bytes: 1}",
       "node 2 (z) has no cost, must say flops or compute_s (0 if it costs nothing)"},
      {"{name: z, output_bytes: 4611686018427387904}",
       "nodes[2] brings the sum of all outputs and transient bytes to more than 4 EiB, must be "
       "less"}};
  for (const auto& [node, message] : table)
    EXPECT_EQ(refusal(kHead + kTwoNodes + "  - " + node + "\n"), "g.yaml:6: " + message);
}

TEST(ReadGraph, RefusesInputsThatAreNotEarlierNodes) {
  const std::vector<Broken> table{
      {"[x, q]", "inputs[1] is q, must be the name of an earlier node"},
      {"[conv9]",
       "inputs[0] is conv9, must be the name of an earlier node (did you mean 'conv1'?)"},
      {"[[x]]", "inputs[0] is a list, must be text"},
      {"[z]", "inputs[0] is z, the node itself (a cycle), must be an earlier one"},
      {"[late]",
       "inputs[0] is late, which comes later, as node 4, must be an earlier node; move it before "
       "this one, unless it needs this one: that is a cycle"},
      {"[x, conv1, x]", "inputs[2] is x for the second time, must be named once"},
      {"[x, x.grad]",
       "inputs[1] is x.grad, a backward node, must be a forward one: nodes without backward: true "
       "are forward nodes"}};
  for (const auto& [inputs, message] : table)
    EXPECT_EQ(refusal(kHead +
                      "  - {name: x, output_bytes: 8}\n"
                      "  - {name: conv1, inputs: [x], output_bytes: 8, flops: 1}\n"
                      "  - {name: x.grad, inputs: [conv1], output_bytes: 8, flops: 1, backward: "
                      "true}\n"
                      "  - {name: z, inputs: " +
                      inputs +
                      ", output_bytes: 4, flops: 1}\n"
                      "  - {name: late, inputs: [z], output_bytes: 4, flops: 1}\n"),
              "g.yaml:7: node 3 (z)." + message);
}

TEST(ReadGraph, TakesOutputsUpToTheLimitOfTheirSum) {
  // 8 + 4 of the first nodes leave 2^62 - 12.
  const std::string most = "  - {name: z, output_bytes: 4611686018427387892}\n";
  EXPECT_EQ(read(kHead + kTwoNodes + most).node(2).bytes, Bytes(4611686018427387892));
}

TEST(ReadGraph, RefusesMoreNodesThanItCanTake) {
  std::string text = kHead;
  for (int i = 0; i <= kMaxNodes; ++i) text += "  - {}\n";
  EXPECT_EQ(refusal(text), "g.yaml:3: nodes has 100001 nodes, must have from 1 to 100000");
}

}  // namespace
}  // namespace trireme::graph
