// Graph files for the tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/input_error.h"

#include "trireme/graph/graph.h"

#include <string>

namespace trireme::graph {

/// The head of a graph file, before its nodes: three lines.
inline const std::string kHead = "format: trireme-graph/1\nname: g\nnodes:\n";

inline Graph read(const std::string& text) {
  return read_graph(io::parse(text, "g.yaml"));
}

inline std::string refusal(const std::string& text) {
  return support::input_error([&] { read(text); });
}

}  // namespace trireme::graph
