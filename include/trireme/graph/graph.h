// A training step of one device as a graph: forward and backward operations with several inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/io/node.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme::graph {

/// An operation and its output, the only thing that it leaves in memory. Weights and their
/// gradients are not part of a graph.
struct Node {
  std::string name;
  std::vector<int> inputs = {};  ///< nodes whose outputs it reads: earlier ones, ascending
  Bytes bytes = {};              ///< of its output; 0: none, such as the gradient of weights alone
  Bytes transient = {};          ///< bytes in use only while it is computed, besides its output
  double flops = 0;              ///< of one computation, for ranks that say their FLOP/s
  std::optional<Seconds> time = {};   ///< of one computation, if measured
  std::optional<Joules> energy = {};  ///< of one computation, if measured
  bool is_backward = false;

  bool operator==(const Node&) const = default;
};

/// Nodes in topological order, which is the order in which they are computed first.
struct Graph {
  std::string name;
  std::vector<Node> nodes;

  bool operator==(const Graph&) const = default;
  int size() const { return static_cast<int>(nodes.size()); }
  const Node& node(int index) const { return nodes[static_cast<std::size_t>(index)]; }
};

/// By node, the later nodes that read its output, ascending.
std::vector<std::vector<int>> users_of(const Graph& graph);

/// Most nodes of a graph file, and its most bytes.
inline constexpr int kMaxNodes = 100'000;
inline constexpr Bytes kMaxGraphFile{std::int64_t{64} << 20};

/// Reads `trireme-graph/1`: of a node `name`, `inputs` (names, in any order), `output_bytes`,
/// `transient_bytes`, `flops`, `compute_s`, `compute_j`, `backward`. A node with inputs must say
/// `flops` or `compute_s`. Throws InputError with file, line, node (counted from 0) and field: for
/// a name given twice, an input that does not exist, comes later (a cycle) or is named twice,
/// negative costs, a forward node that reads a backward one, no nodes or more than kMaxNodes,
/// outputs and transient bytes of more than 4 EiB together.
Graph load_graph(const std::filesystem::path& file);
Graph read_graph(const io::Node& document);
/// A line per node; reads back as the same graph.
std::string to_yaml(const Graph& graph);
/// Digest of everything but the names, of the graph and of its nodes.
std::string digest(const Graph& graph);

}  // namespace trireme::graph
