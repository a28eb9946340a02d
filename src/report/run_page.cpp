// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/run_page.h"

#include "markup.h"
#include "step_sections.h"
#include "training_section.h"

#include "trireme/core/text.h"

namespace trireme::report {
namespace {

/// Null for what has nothing to show.
const simulate::Simulation* shown(const simulate::Simulation* simulation);
std::string list_of(const std::vector<Fact>& facts);

}  // namespace

std::string run_page(const RunPage& run) {
  const std::string name = concat("Run of ", run.name);
  const Timelines timelines{shown(run.predicted), shown(run.measured)};
  std::string body = element("h1", {}, escaped(name)) +
                     element("p", {}, escaped(shape_text(run.plan))) + list_of(run.facts) +
                     training_section(run.training);
  if (timelines.measured == nullptr) body += element("p", {}, "No step was measured.");
  if (timelines.predicted == nullptr) body += element("p", {}, "Nothing was predicted.");
  const StepFigures step{.plan = run.plan,
                         .timelines = timelines,
                         .limits = limits_of(run.plan, timelines, run.budgets),
                         .number = run.measured_number,
                         .steps = run.steps,
                         .median = run.median};
  return page(name, body + step_sections(step, run.chain));
}

namespace {

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
