// The plan of a graph: its schedule, and what was predicted of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/graph/graph.h"
#include "trireme/graph/schedule.h"

#include <filesystem>
#include <optional>
#include <string>

namespace trireme::graph {

struct Plan {
  std::string solver;
  Bytes memory;      ///< budget; 0: none
  Seconds step{0};   ///< predicted
  Joules energy{0};  ///< predicted
  Bytes peak;        ///< predicted
  /// By which share of what it takes, joules or seconds as was asked for, another schedule could be
  /// better at most. 0: it is optimal; nothing: no proof.
  std::optional<double> gap = {};
  Schedule schedule;

  bool operator==(const Plan&) const = default;
};

/// `trireme-graph-plan/1`: JSON, with the schedule in compact words and the graph's digest.
std::string to_json(const Plan& plan, const Graph& graph);

/// Whether a plan must be of a graph with the very same costs. Costs that are measured again
/// differ.
enum class Costs { kSame, kAny };

/// Reads that, or a schedule alone as to_text() and to_compact() write it, which has no
/// predictions. Throws InputError with the file: for a plan of another graph, with kAny unless it
/// has the same name; and as parse_schedule() does.
Plan load_plan(const std::filesystem::path& file, const Graph& graph, Costs costs = Costs::kSame);

}  // namespace trireme::graph
