// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/run_page.h"

#include "markup.h"
#include "step_sections.h"
#include "training_section.h"

#include "trireme/core/text.h"

namespace trireme::report {
namespace {

/// Why a run ended before its last step, and advice.
std::string notices(const RunPage& run);
/// Which step is missing, why, and how to get it.
std::string gaps(const RunPage& run, const Timelines& timelines);
/// Null for a simulation without ranks.
const simulate::Simulation* shown(const simulate::Simulation* simulation);
std::string list_of(const std::vector<Fact>& facts);

}  // namespace

std::string run_page(const RunPage& run) {
  const std::string name = concat("Run of ", run.name);
  const Timelines timelines{shown(run.predicted), shown(run.measured)};
  const std::string body = element("h1", {}, escaped(name)) + notices(run) +
                           element("p", {}, escaped(shape_text(run.plan))) + list_of(run.facts) +
                           training_section(run.training) + gaps(run, timelines);
  const StepFigures step{.plan = run.plan,
                         .timelines = timelines,
                         .limits = limits_of(run.plan, timelines, run.budgets),
                         .number = run.measured_number,
                         .steps = run.steps,
                         .median = run.median};
  return page(name, body + step_sections(step, run.chain));
}

namespace {

std::string notices(const RunPage& run) {
  std::string out;
  const auto add = [&](const std::string& text) {
    out += element("p", {{"class", "notice"}}, escaped(text)) + "\n";
  };
  if (!run.early_end.empty()) add(concat("This run ", run.early_end, "."));
  if (!run.note.empty()) add(concat("Note: ", run.note, "."));
  return out;
}

std::string gaps(const RunPage& run, const Timelines& timelines) {
  std::string out;
  const auto add = [&](const std::string& text) { out += element("p", {}, escaped(text)) + "\n"; };
  if (timelines.measured == nullptr) {
    const std::string predicted =
        timelines.predicted == nullptr ? "" : " What follows is the predicted step.";
    add(concat("No measured step is drawn: ",
               run.early_end.empty()
                   ? "none was trained since the last start."
                   : "ranks pass on what they recorded only when a run completes.",
               predicted));
  }
  if (timelines.predicted == nullptr)
    add("No step was predicted, because this job could be planned without measuring its layers: "
        "it has no memory budget. trireme check JOB.yaml --report plan.html predicts one; a run "
        "with a budget (memory.device_budget) shows it here, next to the measured one.");
  return out;
}

const simulate::Simulation* shown(const simulate::Simulation* simulation) {
  return simulation == nullptr || simulation->ranks.empty() ? nullptr : simulation;
}

std::string list_of(const std::vector<Fact>& facts) {
  if (facts.empty()) return "";
  std::string items;
  for (const Fact& fact : facts)
    items += element("dt", {}, escaped(fact.what)) + element("dd", {}, escaped(fact.value));
  return element("dl", {}, items) + "\n";
}

}  // namespace
}  // namespace trireme::report
