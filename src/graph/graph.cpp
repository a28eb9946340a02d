// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/graph.h"

#include "trireme/chain/read_time.h"
#include "trireme/core/digest.h"
#include "trireme/core/text.h"
#include "trireme/io/terminal.h"

#include <map>
#include <set>
#include <string_view>

namespace trireme::graph {
namespace {

constexpr std::string_view kFormat = "trireme-graph/1";
constexpr double kMaxFlops = 1e21;
constexpr Joules kMaxEnergy{1e12};
constexpr Bytes kMaxSum{std::int64_t{1} << 62};

/// Index of every node, also of those that are not read yet, by name.
using Indices = std::map<std::string, int, std::less<>>;

/// "node 3", or "node 3 (conv2)".
io::Node placed(const io::Node& node, int index, std::string_view name = {});
/// Throws InputError for a name given twice.
Indices read_names(const std::vector<io::Node>& nodes);
/// The next node of `graph`; its inputs must be among those before it.
Node read_node(const io::Node& node, const Graph& graph, const Indices& indices);
std::vector<int> read_inputs(const io::Node& list, const Graph& graph, const Indices& indices,
                             bool is_backward);
int read_input(const io::Node& node, const Graph& graph, const Indices& indices, bool is_backward);
std::string node_line(const Node& node, const Graph& graph);

}  // namespace

std::vector<std::vector<int>> users_of(const Graph& graph) {
  std::vector<std::vector<int>> users(graph.nodes.size());
  for (int index = 0; index < graph.size(); ++index)
    for (const int input : graph.node(index).inputs)
      users[static_cast<std::size_t>(input)].push_back(index);
  return users;
}

Graph load_graph(const std::filesystem::path& file) {
  return read_graph(io::load(file, kMaxGraphFile));
}

Graph read_graph(const io::Node& document) {
  io::MapReader map(document);
  map.required("format").choice({std::string(kFormat)});
  Graph graph;
  graph.name = io::name_in(map.required("name"));
  const io::Node list = map.required("nodes");
  map.finish();

  const std::vector<io::Node> nodes = list.list();
  if (nodes.empty() || nodes.size() > kMaxNodes)
    list.fail(concat("has ", nodes.size(), " nodes, must have from 1 to ", kMaxNodes));
  const Indices indices = read_names(nodes);
  graph.nodes.reserve(nodes.size());
  Bytes sum;
  for (const io::Node& node : nodes) {
    graph.nodes.push_back(read_node(node, graph, indices));
    for (const Bytes size : {graph.nodes.back().bytes, graph.nodes.back().transient}) {
      if (size > kMaxSum - sum)
        node.fail(
            "brings the sum of all outputs and transient bytes to more than 4 EiB, must be "
            "less");
      sum += size;
    }
  }
  return graph;
}

std::string to_yaml(const Graph& graph) {
  std::string text =
      concat("format: ", kFormat, "\nname: ", io::yaml_text(graph.name), "\nnodes:\n");
  for (const Node& node : graph.nodes) text += node_line(node, graph);
  return text;
}

std::string digest(const Graph& graph) {
  Graph nameless = graph;
  nameless.name.clear();
  int index = 0;
  for (Node& node : nameless.nodes) {
    node.name = concat(index++);
    node.flops += 0.0;  // -0 becomes 0
    if (node.time) *node.time += Seconds(0);
    if (node.energy) *node.energy += Joules(0);
  }
  return trireme::digest(to_yaml(nameless));
}

namespace {

io::Node placed(const io::Node& node, int index, std::string_view name) {
  return node.called(name.empty() ? concat("node ", index)
                                  : concat("node ", index, " (", name, ")"));
}

Indices read_names(const std::vector<io::Node>& nodes) {
  Indices indices;
  int index = 0;
  for (const io::Node& node : nodes) {
    const io::Node name = io::MapReader(placed(node, index)).required("name");
    const auto [first, is_new] = indices.emplace(io::name_in(name), index);
    if (!is_new)
      name.fail(concat("is ", name.found(), ", the name of node ", first->second,
                       "; every node must have a name of its own"));
    ++index;
  }
  return indices;
}

Node read_node(const io::Node& node, const Graph& graph, const Indices& indices) {
  Node result;
  result.name = node.find("name")->text();
  const io::Node here = placed(node, graph.size(), result.name);
  io::MapReader map(here);
  map.required("name");
  const auto inputs = map.optional("inputs");
  result.bytes = map.required("output_bytes").bytes();
  if (const auto transient = map.optional("transient_bytes")) result.transient = transient->bytes();
  const auto flops = map.optional("flops");
  if (flops) result.flops = flops->number(0, kMaxFlops);
  if (const auto time = map.optional("compute_s")) result.time = chain::read_time(*time);
  if (const auto energy = map.optional("compute_j"))
    result.energy = Joules(energy->number(0, kMaxEnergy.count()));
  if (const auto backward = map.optional("backward")) result.is_backward = backward->boolean();
  map.finish();
  if (inputs) result.inputs = read_inputs(*inputs, graph, indices, result.is_backward);
  if (!result.inputs.empty() && !flops && !result.time)
    here.fail("has no cost, must say flops or compute_s (0 if it costs nothing)");
  return result;
}

std::vector<int> read_inputs(const io::Node& list, const Graph& graph, const Indices& indices,
                             bool is_backward) {
  std::set<int> inputs;
  for (const io::Node& node : list.list()) {
    if (!inputs.insert(read_input(node, graph, indices, is_backward)).second)
      node.fail(concat("is ", node.found(), " for the second time, must be named once"));
  }
  return {inputs.begin(), inputs.end()};
}

int read_input(const io::Node& node, const Graph& graph, const Indices& indices, bool is_backward) {
  const auto found = indices.find(node.text());
  if (found == indices.end()) {
    std::vector<std::string> names;
    for (const Node& earlier : graph.nodes) names.push_back(earlier.name);
    node.fail(concat("is ", node.found(), ", must be the name of an earlier node",
                     did_you_mean(node.text(), names)));
  }
  const int input = found->second;
  if (input == graph.size())
    node.fail(concat("is ", node.found(), ", the node itself (a cycle), must be an earlier one"));
  if (input > graph.size())
    node.fail(
        concat("is ", node.found(), ", which comes later, as node ", input,
               ", must be an earlier node; move it before this one, unless it needs this one: "
               "that is a cycle"));
  if (graph.node(input).is_backward && !is_backward)
    node.fail(concat("is ", node.found(),
                     ", a backward node, must be a forward one: nodes without "
                     "backward: true are forward nodes"));
  return input;
}

std::string node_line(const Node& node, const Graph& graph) {
  std::string line = concat("  - {name: ", io::yaml_text(node.name));
  std::vector<std::string> inputs;
  for (const int input : node.inputs) inputs.push_back(io::yaml_text(graph.node(input).name));
  if (!inputs.empty()) line += concat(", inputs: [", join(inputs, ", "), "]");
  line += concat(", output_bytes: ", node.bytes.count());
  if (node.transient > Bytes(0)) line += concat(", transient_bytes: ", node.transient.count());
  if (node.flops > 0 || (!inputs.empty() && !node.time))
    line += concat(", flops: ", to_text(node.flops));
  if (node.time) line += concat(", compute_s: ", to_text(node.time->count()));
  if (node.energy) line += concat(", compute_j: ", to_text(node.energy->count()));
  if (node.is_backward) line += ", backward: true";
  return line + "}\n";
}

}  // namespace
}  // namespace trireme::graph
