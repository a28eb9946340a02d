// SPDX-License-Identifier: Apache-2.0
#include "links.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <optional>

namespace trireme::poet {
namespace {

using graph::Graph;
using Why = std::optional<std::string>;

std::string name(const Graph& graph, int node);
Why why_no_order(const Graph& graph);
Why why_no_forward(const Graph& graph, int layer);
Why why_no_backward(const Graph& graph, const Links& links, int layer);
bool reads(const Graph& graph, int node, int input);

}  // namespace

std::variant<Links, std::string> links_of(const Graph& graph) {
  if (Why why = why_no_order(graph)) return *why;
  Links links{.layers = (graph.size() - 1) / 2, .reads_output = {false}, .reads_input = {false}};
  for (int layer = 1; layer <= links.layers; ++layer) {
    if (Why why = why_no_forward(graph, layer)) return *why;
  }
  for (int layer = links.layers; layer >= 1; --layer) {
    if (Why why = why_no_backward(graph, links, layer)) return *why;
  }
  for (int layer = 1; layer <= links.layers; ++layer) {
    links.reads_output.push_back(reads(graph, links.backward(layer), layer));
    links.reads_input.push_back(reads(graph, links.backward(layer), layer - 1));
  }
  return links;
}

namespace {

std::string name(const Graph& graph, int node) {
  return concat("node ", node, " (", graph.node(node).name, ")");
}

// As many backward nodes as there are layers.
Why why_no_order(const Graph& graph) {
  const auto forward = std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                     [](const graph::Node& node) { return !node.is_backward; });
  const auto backward = static_cast<std::ptrdiff_t>(graph.nodes.size()) - forward;
  if (forward != backward + 1) {
    return concat("it has ", forward, " forward nodes and ", backward,
                  " backward ones; a chain has one forward node more than backward ones");
  }
  if (!graph.node(0).inputs.empty()) return concat(name(graph, 0), " has inputs");
  return std::nullopt;
}

Why why_no_forward(const Graph& graph, int layer) {
  const graph::Node& node = graph.node(layer);
  if (node.is_backward) return concat(name(graph, layer), " is a backward node before the loss");
  if (node.inputs == std::vector<int>{layer - 1}) return std::nullopt;
  return concat(name(graph, layer), " does not read ", name(graph, layer - 1), " alone");
}

Why why_no_backward(const Graph& graph, const Links& links, int layer) {
  const int node = links.backward(layer);
  const bool is_first = layer == links.layers;
  for (const int input : graph.node(node).inputs) {
    if (input == layer || input == layer - 1 || (!is_first && input == node - 1)) continue;
    return concat(name(graph, node), " reads ", name(graph, input),
                  "; the backward of a layer reads the backward before it, and of the layer's "
                  "output and input what it needs");
  }
  if (is_first || reads(graph, node, node - 1)) return std::nullopt;
  return concat(name(graph, node), " does not read ", name(graph, node - 1));
}

bool reads(const Graph& graph, int node, int input) {
  const std::vector<int>& inputs = graph.node(node).inputs;
  return std::binary_search(inputs.begin(), inputs.end(), input);
}

}  // namespace
}  // namespace trireme::poet
