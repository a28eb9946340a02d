// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/plan.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/io/json.h"
#include "trireme/io/node.h"

namespace trireme::graph {
namespace {

constexpr std::string_view kFormat = "trireme-graph-plan/1";
constexpr double kMost = 1e300;

void read_prediction(Plan& plan, const io::Node& node);
Plan read_plan(const io::Node& document, const Graph& graph, Costs costs);

}  // namespace

std::string to_json(const Plan& plan, const Graph& graph) {
  io::Json predicted{{"step_s", plan.step.count()},
                     {"energy_j", plan.energy.count()},
                     {"peak_bytes", plan.peak.count()}};
  if (plan.gap) predicted["gap"] = *plan.gap;
  return io::document({{"format", std::string(kFormat)},
                       {"graph", {{"name", graph.name}, {"digest", digest(graph)}}},
                       {"solver", plan.solver},
                       {"memory_bytes", plan.memory.count()},
                       {"predicted", std::move(predicted)},
                       {"schedule", to_compact(plan.schedule, graph)}});
}

Plan load_plan(const std::filesystem::path& file, const Graph& graph, Costs costs) {
  const std::string text = io::read_file(file, kMaxGraphFile);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && text[begin] == '{')
    return read_plan(io::load(file, kMaxGraphFile), graph, costs);
  try {
    return {.schedule = parse_schedule(text, graph)};
  } catch (const InputError& error) {
    throw InputError(concat(file.string(), ": ", error.what()));
  }
}

namespace {

Plan read_plan(const io::Node& document, const Graph& graph, Costs costs) {
  io::MapReader map(document);
  map.required("format").choice({std::string(kFormat)});
  Plan plan;
  io::MapReader of(map.required("graph"));
  const std::string name = of.required("name").text();
  const io::Node found = of.required("digest");
  of.finish();
  const bool is_same = costs == Costs::kSame ? found.text() == digest(graph) : name == graph.name;
  if (!is_same)
    found.fail(concat("is that of the graph ", name, ", must be ", digest(graph), ", that of ",
                      graph.name, ": give the graph that the plan was made for"));
  plan.solver = map.required("solver").text();
  plan.memory = map.required("memory_bytes").bytes();
  if (const auto predicted = map.optional("predicted")) read_prediction(plan, *predicted);
  const io::Node schedule = map.required("schedule");
  map.finish();
  try {
    plan.schedule = parse_schedule(schedule.text(), graph);
  } catch (const InputError& error) {
    schedule.fail(concat("cannot be read: ", error.what()));
  }
  return plan;
}

void read_prediction(Plan& plan, const io::Node& node) {
  io::MapReader map(node);
  if (const auto step = map.optional("step_s")) plan.step = step->seconds();
  if (const auto energy = map.optional("energy_j")) plan.energy = Joules(energy->number(0, kMost));
  if (const auto peak = map.optional("peak_bytes")) plan.peak = peak->bytes();
  if (const auto gap = map.optional("gap")) plan.gap = gap->number(0, 1);
  map.finish();
}

}  // namespace
}  // namespace trireme::graph
