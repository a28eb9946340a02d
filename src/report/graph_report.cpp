// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/graph_report.h"

#include "markup.h"
#include "panels.h"

#include "trireme/core/text.h"
#include "trireme/graph/timeline.h"
#include "trireme/io/json.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::report {
namespace {

using graph::Outcome;

/// The step without recomputation and waits.
Seconds ideal_of(const graph::Problem& problem) {
  Seconds sum;
  for (const graph::NodeCost& cost : problem.costs) sum += cost.time;
  return sum;
}

/// How often each node is computed, copied out and copied in.
struct Uses {
  int computed = 0, out = 0, in = 0;
};

std::vector<Uses> uses_of(const GraphRun& run) {
  std::vector<Uses> uses(run.problem.graph.nodes.size());
  for (const graph::Action& action : run.plan.schedule) {
    Uses& of = uses[static_cast<std::size_t>(action.node)];
    of.computed += action.op == graph::Op::kCompute ? 1 : 0;
    of.out += action.op == graph::Op::kCopyOut ? 1 : 0;
    of.in += action.op == graph::Op::kCopyIn ? 1 : 0;
  }
  return uses;
}

int count_of(const GraphRun& run, graph::Op op) {
  return static_cast<int>(
      std::count_if(run.plan.schedule.begin(), run.plan.schedule.end(),
                    [&](const graph::Action& action) { return action.op == op; }));
}

/// "poet, proven optimal", "poet, another one would be better by 1.2 % at most".
std::string solver_text(const GraphRun& run) {
  const graph::Plan& plan = run.plan;
  if (plan.solver.empty()) return "given";
  if (!plan.gap) return plan.solver;
  if (*plan.gap == 0) return plan.solver + ", proven optimal";
  return concat(plan.solver, ", another one would be better by ", percent_text(*plan.gap),
                " at most");
}

std::vector<std::vector<std::string>> node_rows(const GraphRun& run) {
  std::vector<std::vector<std::string>> rows{
      {"node", "name", "bytes", "time", "energy", "computed", "copied out", "copied in"}};
  const std::vector<Uses> uses = uses_of(run);
  for (int k = 0; k < run.problem.graph.size(); ++k) {
    const Uses& of = uses[static_cast<std::size_t>(k)];
    const graph::NodeCost& cost = run.problem.cost(k);
    const graph::Node& node = run.problem.graph.node(k);
    rows.push_back({concat(k), node.name, to_text(node.bytes), time_text(cost.time),
                    to_text(cost.energy), concat(of.computed), concat(of.out), concat(of.in)});
  }
  return without_empty_columns(std::move(rows));
}

std::string cards_of(const GraphRun& run) {
  const Outcome& outcome = run.replayed.outcome;
  const Seconds ideal = ideal_of(run.problem);
  const Bytes memory = run.problem.memory;
  return element("div", {{"class", "cards"}},
                 card("step", time_text(outcome.time),
                      {concat(overhead_text(outcome.time, ideal), " over ", time_text(ideal), ":"),
                       "every node once, no waits"}) +
                     card("energy", to_text(outcome.energy()),
                          {concat(to_text(outcome.recompute_energy), " recompute"),
                           concat(to_text(outcome.copies), " copies")}) +
                     card("recompute", time_text(outcome.recompute),
                          {concat(count_of(run, graph::Op::kCompute) - run.problem.graph.size(),
                                  " computations")}) +
                     card("peak", to_text(outcome.peak),
                          {memory > Bytes(0) ? concat("of ", to_text(memory)) : "no budget"}) +
                     card("moved", to_text(outcome.offloaded),
                          {concat(count_of(run, graph::Op::kCopyOut), " copies out, ",
                                  count_of(run, graph::Op::kCopyIn), " in")}));
}

std::string nodes_text(const graph::Graph& graph) {
  const auto backward = std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                      [](const graph::Node& node) { return node.is_backward; });
  return concat(graph.size(), " nodes, ", graph.size() - backward, " forward and ", backward,
                " backward");
}

}  // namespace

std::string graph_text(const GraphRun& run) {
  const Outcome& outcome = run.replayed.outcome;
  const graph::Graph& graph = run.problem.graph;
  const Seconds ideal = ideal_of(run.problem);
  const Bytes memory = run.problem.memory;
  return concat("graph     ", graph.name, ": ", nodes_text(graph), "\nsolver    ", solver_text(run),
                "\ntime      ", time_text(outcome.time), " per step, ",
                overhead_text(outcome.time, ideal), " over ", time_text(ideal),
                " (every node once, no waits)\nrecompute ", time_text(outcome.recompute), " in ",
                count_of(run, graph::Op::kCompute) - graph.size(), " computations\nenergy    ",
                to_text(outcome.energy()), " per step: ", to_text(outcome.compute), " compute (",
                to_text(outcome.recompute_energy), " recompute), ", to_text(outcome.copies),
                " copies, ", to_text(outcome.idle), " idle\npeak      ", exact_text(outcome.peak),
                memory > Bytes(0)
                    ? concat(" of ", exact_text(memory), ", ", percent_text(outcome.peak / memory))
                    : "",
                "\nmoved     ", exact_text(outcome.offloaded),
                " to the offload tier: ", count_of(run, graph::Op::kCopyOut), " copies out, ",
                count_of(run, graph::Op::kCopyIn), " copies in\nschedule  ",
                graph::to_compact(run.plan.schedule, graph), "\n");
}

std::string graph_json(const GraphRun& run) {
  const Outcome& outcome = run.replayed.outcome;
  return io::document({{"format", "trireme-graph-simulation/1"},
                       {"graph", run.problem.graph.name},
                       {"step_s", outcome.time.count()},
                       {"busy_s", outcome.busy.count()},
                       {"recompute_s", outcome.recompute.count()},
                       {"energy_j",
                        {{"all", outcome.energy().count()},
                         {"compute", outcome.compute.count()},
                         {"recompute", outcome.recompute_energy.count()},
                         {"copies", outcome.copies.count()},
                         {"idle", outcome.idle.count()}}},
                       {"peak_bytes", outcome.peak.count()},
                       {"offloaded_bytes", outcome.offloaded.count()}});
}

std::string graph_page(const GraphRun& run) {
  const graph::Graph& graph = run.problem.graph;
  const std::string name = concat("Plan for ", graph.name);
  const simulate::Simulation timeline =
      graph::timeline(run.problem, run.plan.schedule, run.replayed);
  const Timelines timelines{.predicted = &timeline};
  std::string body =
      element("h1", {}, escaped(name)) +
      element("p", {}, escaped(concat(nodes_text(graph), ", by ", solver_text(run))));
  body += cards_of(run) + "\n" + legend(timelines);
  body += element("h2", {}, "Memory and lanes over one step") +
          element("p", {}, "Numbers in blocks are nodes.");
  body += rank_panel(timelines, graph::as_chain(run.problem), 0,
                     {.budget = run.problem.memory, .always = {}});
  body += element("h2", {}, "Schedule") +
          element("pre", {}, escaped(graph::to_compact(run.plan.schedule, graph)));
  body += element("h2", {}, "Nodes") + "\n" + html_table(node_rows(run));
  return page(name, body);
}

}  // namespace trireme::report
