// SPDX-License-Identifier: Apache-2.0
#include "simulate_command.h"

#include "exit_code.h"
#include "graph_command.h"

#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/program/action.h"
#include "trireme/report/chrome_trace.h"
#include "trireme/report/plan_page.h"
#include "trireme/report/text.h"

#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace trireme::app {
namespace {

/// Most ranks and micro-batches for which passes are drawn, in lines of 100 characters.
constexpr std::size_t kMostDrawn = 8;

std::string drawn_passes(const Planned& planned);

}  // namespace

int simulate_plan(const SimulateArguments& arguments) {
  if (!arguments.graph.empty()) return simulate_graph(arguments);
  for (const std::string& file : {arguments.trace, arguments.report}) io::require_writable(file);
  const bool wants_timeline = !arguments.trace.empty() || !arguments.report.empty();
  const Planned planned = load_planned(arguments.files);
  const simulate::Simulation simulation =
      simulated(planned, wants_timeline ? simulate::Detail::kTimeline : simulate::Detail::kSummary);
  if (const auto infeasible = over_budget(planned, simulation))
    return report_over_budget(*infeasible, arguments.files, arguments.json);
  if (!arguments.trace.empty())
    io::write_file(arguments.trace, report::chrome_trace(simulation, planned.chain,
                                                         plan::chunks_of_layers(planned.plan)));
  if (!arguments.report.empty())
    io::write_file(arguments.report, report::plan_page(planned.plan, planned.chain, simulation));
  if (arguments.json) {
    std::cout << report::to_json(planned.plan, simulation);
    return kDone;
  }
  std::cout << report::simulation_text(planned.plan, simulation) << drawn_passes(planned);
  if (!arguments.trace.empty())
    std::cout << "written: " << visible(arguments.trace) << " (for ui.perfetto.dev)\n";
  if (!arguments.report.empty()) std::cout << "written: " << visible(arguments.report) << "\n";
  return kDone;
}

namespace {

std::string drawn_passes(const Planned& planned) {
  const program::Program& program = planned.program;
  const std::size_t ranks = program.ranks.size();
  if (ranks < 2 || ranks > kMostDrawn || std::cmp_greater(program.micro_batches, kMostDrawn))
    return "";
  std::vector<int> chunks = plan::chunks_of_layers(planned.plan);
  std::string text = "\nforward and backward passes, drawn as if all took equally long";
  if (plan::has_split_backward(planned.plan)) text += "; I: gradients of inputs, W: of weights";
  if (!chunks.empty()) text += "; 2F0: chunk 2, forward of micro-batch 0";
  return text + ":\n" + program::grid(program, std::move(chunks));
}

}  // namespace
}  // namespace trireme::app
