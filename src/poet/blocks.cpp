// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <utility>

namespace trireme::poet {
namespace {

using graph::Graph;
using graph::Problem;

int forward_nodes(const Graph& graph);
bool separates(const Graph& graph, int output, int gradient);
std::vector<int> tape_of(const Graph& graph, const Blocks& blocks, int block);
chain::LayerCost layer_of(const Problem& problem, const Blocks& blocks, int block);
Bytes peak_of(const Graph& graph, const std::vector<int>& held, int first, int last,
              const std::vector<int>& kept);
Bytes bytes_of(const Graph& graph, const std::vector<int>& nodes);

}  // namespace

// From the end: the latest gradient that a cut allows leaves most backward nodes to later blocks.
Blocks blocks_of(const Graph& graph) {
  const int forward = forward_nodes(graph);
  Blocks blocks{.outputs = {0}, .gradients = {graph.size() - 1}, .tapes = {}};
  for (int output = 1; output + 1 < forward; ++output) {
    for (int gradient = blocks.gradients.back() - 1; gradient >= forward; --gradient) {
      if (!separates(graph, output, gradient)) continue;
      blocks.outputs.push_back(output);
      blocks.gradients.push_back(gradient);
      break;
    }
  }
  if (forward > 1) {
    blocks.outputs.push_back(forward - 1);
    blocks.gradients.push_back(forward - 1);
  }
  blocks.tapes.emplace_back();
  for (int block = 1; block <= blocks.count(); ++block) {
    blocks.tapes.push_back(tape_of(graph, blocks, block));
  }
  return blocks;
}

chain::Chain chain_of(const Problem& problem, const Blocks& blocks) {
  chain::Chain chain{.name = problem.graph.name, .input = problem.graph.node(0).bytes};
  for (int block = 1; block <= blocks.count(); ++block) {
    chain.layers.push_back(layer_of(problem, blocks, block));
  }
  return chain;
}

namespace {

int forward_nodes(const Graph& graph) {
  int forward = 0;
  while (forward < graph.size() && !graph.node(forward).is_backward) ++forward;
  const bool is_mixed = std::any_of(graph.nodes.begin() + forward, graph.nodes.end(),
                                    [](const graph::Node& node) { return !node.is_backward; });
  if (is_mixed || forward == 0 || !graph.node(0).inputs.empty()) {
    throw InputError(
        concat("pofo: the graph ", graph.name, " ",
               is_mixed ? "has a forward node after a backward one"
                        : "does not begin with a node without inputs",
               "; it must be an input, then forward nodes, then backward ones. Use the "
               "solver poet or greedy"));
  }
  return forward;
}

// Nothing after a cut reads what comes before it, but its output; the same of backward nodes.
bool separates(const Graph& graph, int output, int gradient) {
  for (int node = 0; node < graph.size(); ++node) {
    const bool is_after = graph.node(node).is_backward ? node <= gradient : node > output;
    for (const int input : graph.node(node).inputs) {
      const bool is_gradient = graph.node(input).is_backward;
      if (is_gradient && node > gradient && input < gradient) return false;
      if (!is_gradient && is_after && input < output) return false;
      if (!is_gradient && !is_after && input > output) return false;
    }
  }
  return true;
}

std::vector<int> tape_of(const Graph& graph, const Blocks& blocks, int block) {
  const int last = blocks.output(block);
  std::vector<int> tape{last};
  for (int node = blocks.first_backward(block); node <= blocks.last_backward(block); ++node) {
    for (const int input : graph.node(node).inputs) {
      if (input > blocks.output(block - 1) && input < last) tape.push_back(input);
    }
  }
  std::sort(tape.begin(), tape.end());
  tape.erase(std::unique(tape.begin(), tape.end()), tape.end());
  return tape;
}

chain::LayerCost layer_of(const Problem& problem, const Blocks& blocks, int block) {
  const Graph& graph = problem.graph;
  const int input = blocks.output(block - 1), output = blocks.output(block);
  const std::vector<int>& tape = blocks.tape(block);
  chain::LayerCost layer{.name = graph.node(output).name,
                         .output = graph.node(output).bytes,
                         .tape = bytes_of(graph, tape)};
  for (int node = input + 1; node <= output; ++node) layer.forward += problem.cost(node).time;
  std::vector<int> held = tape;
  const int begin = blocks.first_backward(block), end = blocks.last_backward(block);
  for (int node = begin; node <= end; ++node) layer.backward += problem.cost(node).time;
  if (block < blocks.count()) held.push_back(begin - 1);
  const auto above = [](Bytes peak, Bytes before) { return std::max(peak - before, Bytes(0)); };
  layer.forward_transient = above(peak_of(graph, {}, input + 1, output, {output}), layer.output);
  layer.tape_transient = above(peak_of(graph, {}, input + 1, output, tape), layer.tape);
  layer.backward_transient =
      above(peak_of(graph, held, begin, end, {end}), layer.tape + layer.output);
  return layer;
}

// The peak of `held` and what these nodes make, where all but `kept` is dropped after its last use.
Bytes peak_of(const Graph& graph, const std::vector<int>& held, int first, int last,
              const std::vector<int>& kept) {
  std::vector<int> here = held;
  Bytes peak = bytes_of(graph, here);
  for (int node = first; node <= last; ++node) {
    here.push_back(node);
    peak = std::max(peak, bytes_of(graph, here));
    std::erase_if(here, [&](int value) {
      if (std::find(kept.begin(), kept.end(), value) != kept.end()) return false;
      for (int later = node + 1; later <= last; ++later) {
        const std::vector<int>& inputs = graph.node(later).inputs;
        if (std::binary_search(inputs.begin(), inputs.end(), value)) return false;
      }
      return true;
    });
  }
  return peak;
}

Bytes bytes_of(const Graph& graph, const std::vector<int>& nodes) {
  Bytes sum{0};
  for (const int node : nodes) sum += graph.node(node).bytes;
  return sum;
}

}  // namespace
}  // namespace trireme::poet
