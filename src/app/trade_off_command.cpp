// SPDX-License-Identifier: Apache-2.0
#include "trade_off_command.h"

#include "exit_code.h"
#include "patience.h"

#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/report/text.h"
#include "trireme/report/trade_off.h"

#include <iostream>

namespace trireme::app {

int trade_off(const PlanArguments& arguments, const partition::Question& question) {
  const partition::Traded traded = [&] {
    const Patience patience("planning for several prices of time, copies and clocks ...");
    return partition::trade_off(question, goal_of(arguments).deadline);
  }();
  if (const auto* why = std::get_if<plan::Infeasible>(&traded.fastest.answer))
    return give_up(arguments, question, *why);
  return give_trade_off(arguments, traded.plans, question.chain.name);
}

int give_trade_off(const PlanArguments& arguments, const std::vector<plan::Plan>& plans,
                   const std::string& name) {
  const std::string csv = report::trade_off_csv(plans);
  if (!arguments.csv.empty()) io::write_file(arguments.csv, csv);
  if (!arguments.plot.empty()) io::write_file(arguments.plot, report::trade_off_page(plans, name));
  if (arguments.csv.empty() && arguments.plot.empty()) {
    std::cout << csv;
    return kDone;
  }
  std::cout << count_of(std::ssize(plans), "plan") << " from "
            << report::time_text(plans.front().step) << " and " << to_text(plans.front().energy)
            << " to " << report::time_text(plans.back().step) << " and "
            << to_text(plans.back().energy) << "\n";
  for (const std::string& file : {arguments.csv, arguments.plot}) {
    if (!file.empty()) std::cout << "written: " << visible(file) << "\n";
  }
  return kDone;
}

}  // namespace trireme::app
