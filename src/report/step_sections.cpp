// SPDX-License-Identifier: Apache-2.0
#include "step_sections.h"

#include "layer_table.h"
#include "markup.h"
#include "panels.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace trireme::report {
namespace {

/// Limits on ranks shown, so that browsers stay fast.
constexpr std::size_t kMostPanels = 16, kMostRows = 64;

/// What a program's numbers stand for: "nodes" of a graph, else "layers".
std::string_view numbered(const plan::Plan& plan);
std::string heading(std::string_view text);
std::string remark(std::string_view text);
std::string ranks_section(const StepFigures& step);
std::string pipeline_section(const StepFigures& step, const chain::Chain& chain);
std::string panels_section(const StepFigures& step, const chain::Chain& chain);
/// Every n-th rank, at most `most`.
std::vector<int> spread(int ranks, std::size_t most);
/// The ranks with the fullest budgets, in ascending order.
std::vector<int> fullest(const StepFigures& step, std::size_t most);
std::string alternatives_section(const plan::Plan& plan);
std::string stage_section(const plan::Plan& plan, const plan::StagePlan& stage,
                          const chain::Chain& chain, const Timelines& timelines);

}  // namespace

std::string step_sections(const StepFigures& step, const chain::Chain& chain) {
  std::string out = cards(step);
  if (step.timelines.main() != nullptr) {
    out += ranks_section(step) + legend(step.timelines) + pipeline_section(step, chain) +
           panels_section(step, chain);
  }
  if (step.plan.stages.size() > 1 || has_offloaded(step.plan))
    out += heading(concat(schedule::shares_ranks(plan::placement(step.plan)) ? "Chunks" : "Stages",
                          ", as planned, per micro-batch")) +
           html_table(without_empty_columns(stage_rows(step.plan)));
  out += alternatives_section(step.plan);
  for (const plan::StagePlan& stage : step.plan.stages)
    out += stage_section(step.plan, stage, chain, step.timelines);
  return out;
}

std::string shape_text(const plan::Plan& plan) {
  const int layers = plan.stages.empty() ? 0 : plan.stages.back().program.last_layer;
  return concat(layers, " ", numbered(plan), ", ", passes_text(plan),
                plan.solver.empty() ? "" : concat(", by ", plan.solver));
}

namespace {

std::string_view numbered(const plan::Plan& plan) {
  const auto is_node = [](const program::Action& action) {
    return action.op == program::Op::kCompute;
  };
  const bool is_graph =
      !plan.stages.empty() && std::any_of(plan.stages.front().program.forward.begin(),
                                          plan.stages.front().program.forward.end(), is_node);
  return is_graph ? "nodes" : "layers";
}

std::string heading(std::string_view text) {
  return element("h2", {}, escaped(text)) + "\n";
}

std::string remark(std::string_view text) {
  return element("p", {}, escaped(text)) + "\n";
}

std::string ranks_section(const StepFigures& step) {
  if (!step.timelines.both() && step.timelines.ranks() == 1) return "";  // the cards say it all
  return heading("Ranks, over one step") + html_table(without_empty_columns(rank_rows(step)));
}

std::string pipeline_section(const StepFigures& step, const chain::Chain& chain) {
  const int ranks = step.timelines.ranks();
  if (ranks == 1) return "";
  const std::vector<int> shown = spread(ranks, kMostRows);
  const bool all = static_cast<int>(shown.size()) == ranks;
  const std::vector<int> chunks = plan::chunks_of_layers(step.plan);
  return heading("Pipeline over one step") +
         remark(concat("Compute of ",
                       all ? "all ranks" : concat(shown.size(), " of ", ranks, " ranks"),
                       "; numbers are micro-batches.",
                       chunks.empty() ? "" : " Shades tell the chunks of a rank apart.")) +
         pipeline_panel(step.timelines, chain, chunks, shown);
}

std::string panels_section(const StepFigures& step, const chain::Chain& chain) {
  const std::vector<int> shown = fullest(step, kMostPanels);
  std::string out;
  if (static_cast<int>(shown.size()) < step.timelines.ranks())
    out += remark(concat("Memory and lanes of the ", shown.size(),
                         " ranks that are nearest to their budgets:"));
  for (const int rank : shown) {
    out += heading(concat("Rank ", rank, ": memory and lanes over one step"));
    if (rank == shown.front())
      out += remark(concat("Numbers in blocks are ", numbered(step.plan), "."));
    out += rank_panel(step.timelines, chain, rank, step.limits[static_cast<std::size_t>(rank)]);
  }
  return out;
}

std::vector<int> spread(int ranks, std::size_t most) {
  const int every = (ranks + static_cast<int>(most) - 1) / static_cast<int>(most);
  std::vector<int> chosen;
  for (int rank = 0; rank < ranks; rank += every) chosen.push_back(rank);
  return chosen;
}

std::vector<int> fullest(const StepFigures& step, std::size_t most) {
  std::vector<int> chosen(static_cast<std::size_t>(step.timelines.ranks()));
  std::iota(chosen.begin(), chosen.end(), 0);
  if (chosen.size() <= most) return chosen;
  const auto share = [&](int rank) { return fullness(step, rank); };
  std::stable_sort(chosen.begin(), chosen.end(), [&](int a, int b) { return share(a) > share(b); });
  chosen.resize(most);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::string alternatives_section(const plan::Plan& plan) {
  if (plan.alternatives.empty()) return "";
  return heading("Alternatives to this plan") + html_table(alternative_rows(plan));
}

std::string stage_section(const plan::Plan& plan, const plan::StagePlan& stage,
                          const chain::Chain& chain, const Timelines& timelines) {
  const program::StageProgram& program = stage.program;
  const bool is_of_nodes = numbered(plan) == "nodes";
  std::string out =
      heading(concat(is_of_nodes ? "Nodes " : "Layers ", program.first_layer, " to ",
                     program.last_layer, " on rank ", stage.rank, ", for one micro-batch"));
  out += element("pre", {},
                 escaped(concat(
                     plan::has_clocks(stage) ? concat("clocks: ", clocks_text(stage), "\n") : "",
                     "forward: ", actions_text(program.forward),
                     "\nbackward: ", actions_text(program.backward)))) +
         "\n";
  for (std::size_t i = 0; i < stage.mix.others.size(); ++i) {
    const program::StageProgram& other = stage.mix.others[i];
    out += element("pre", {},
                   escaped(concat(mix_note(stage.mix, static_cast<int>(i) + 1),
                                  "\nforward: ", actions_text(other.forward),
                                  "\nbackward: ", actions_text(other.backward)))) +
           "\n";
  }
  if (chain.length() < program.last_layer) return out;  // the layers' costs are unknown
  return out + html_table(without_empty_columns(layer_rows(chain, stage, timelines.measured)));
}

}  // namespace
}  // namespace trireme::report
