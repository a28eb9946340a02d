// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/plan_page.h"

#include "markup.h"
#include "step_sections.h"

#include "trireme/core/text.h"

namespace trireme::report {

std::string plan_page(const plan::Plan& plan, const chain::Chain& chain,
                      const simulate::Simulation& timeline) {
  const std::string name = concat("Plan for ", plan.chain_name);
  const Timelines timelines{.predicted = &timeline};
  return page(name, element("h1", {}, escaped(name)) + element("p", {}, escaped(shape_text(plan))) +
                        step_sections({plan, timelines, limits_of(plan, timelines, {})}, chain));
}

}  // namespace trireme::report
