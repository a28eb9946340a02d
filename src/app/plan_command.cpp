// SPDX-License-Identifier: Apache-2.0
#include "plan_command.h"

#include "choose.h"
#include "exit_code.h"
#include "one_rank.h"
#include "sweep.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/report/plan_page.h"
#include "trireme/report/text.h"
#include "trireme/solve/solve.h"

#include <iostream>
#include <optional>
#include <utility>

namespace trireme::app {
namespace {

/// Says on standard error what it had to assume.
OneRank read_question(const PlanArguments& arguments);
std::optional<Bytes> memory_of(const PlanArguments& arguments);
/// The named solver first, then those whose times are worth knowing beside it. Throws InputError if
/// the named one refuses, or all do.
std::vector<Tried> ask(const OneRank& question, const std::string& solver);
bool is_open(const std::string& solver) {
  return solver == "auto" || solver == "all";
}

int give(const PlanArguments& arguments, const OneRank& question, const plan::Plan& plan);
int give_up(const PlanArguments& arguments, const std::vector<Tried>& tried,
            const Tried& infeasible);
void print_comparison(const std::vector<Tried>& tried, const OneRank& question, std::ostream& out);

}  // namespace

int plan(const PlanArguments& arguments) {
  if (arguments.stages != 1)
    throw InputError(concat("--stages: is ", arguments.stages,
                            ", must be 1: the joint planner for several stages is not there yet"));
  std::ostream& out = arguments.json ? std::cerr : std::cout;
  const OneRank question = read_question(arguments);
  if (arguments.sweep > 0) return sweep(arguments, question);
  const std::vector<Tried> tried = ask(question, arguments.solver);
  if (arguments.solver == "all") print_comparison(tried, question, out);
  const Tried* const chosen = is_open(arguments.solver) ? fastest(tried) : &tried.front();
  if (chosen == nullptr || chosen->plan() == nullptr)
    return give_up(arguments, tried, chosen == nullptr ? *leanest(tried) : *chosen);
  plan::Plan plan = *chosen->plan();
  plan.alternatives = alternatives(tried, *chosen);
  return give(arguments, question, plan);
}

namespace {

OneRank read_question(const PlanArguments& arguments) {
  OneRank question;
  question.chain = chain::load_chain(arguments.chain);
  question.micro_batches = arguments.micro_batches;
  question.slots = arguments.slots;
  question.platform = arguments.platform.empty() ? chain::uniform_platform(1, Bytes(0))
                                                 : chain::load_platform(arguments.platform);
  if (question.platform.ranks.size() > 1) {
    std::cerr << "planning for rank 0 of the " << question.platform.ranks.size() << " in "
              << arguments.platform << "\n";
    question.platform.ranks.resize(1);
    question.platform.overrides.clear();
  }
  Bytes& memory = question.platform.ranks.front().memory;
  const std::optional<Bytes> given = memory_of(arguments);
  if (given) {
    memory = *given;
  } else if (memory == Bytes(0)) {
    memory = keep_all_budget(question);
    if (arguments.sweep == 0)
      std::cerr << "no memory given: taking what keep_all needs, " << report::exact_text(memory)
                << "\n";
  }
  return question;
}

std::optional<Bytes> memory_of(const PlanArguments& arguments) {
  if (arguments.memory.empty()) return std::nullopt;
  const std::optional<Bytes> memory = parse_bytes(arguments.memory);
  if (!memory)
    throw InputError(
        concat("--memory: is '", arguments.memory, "', must be a size such as 12GiB or 4096"));
  return memory;
}

std::vector<Tried> ask(const OneRank& question, const std::string& solver) {
  if (is_open(solver)) {
    std::vector<Tried> tried =
        try_all(question, solver == "all" ? solve::solver_names() : quick_solvers(question));
    if (fastest(tried) == nullptr && leanest(tried) == nullptr)
      throw InputError(tried.front().refused);
    return tried;
  }
  std::vector<Tried> tried = try_all(question, {solver});
  if (!tried.front().refused.empty()) throw InputError(tried.front().refused);
  std::vector<std::string> others = instant_solvers(question);
  std::erase(others, solver);
  for (Tried& other : try_all(question, others)) tried.push_back(std::move(other));
  return tried;
}

int give(const PlanArguments& arguments, const OneRank& question, const plan::Plan& plan) {
  const simulate::Simulation timeline = simulated(question, plan, simulate::Detail::kTimeline);
  if (!arguments.output.empty()) io::write_file(arguments.output, plan::to_json(plan));
  if (!arguments.report.empty())
    io::write_file(arguments.report, report::plan_page(plan, question.chain, timeline));
  if (arguments.json) {
    std::cout << plan::to_json(plan);
    return kDone;
  }
  std::cout << report::plan_text(plan, question.chain, timeline);
  for (const std::string& file : {arguments.output, arguments.report}) {
    if (!file.empty()) std::cout << "written: " << file << "\n";
  }
  return kDone;
}

int give_up(const PlanArguments& arguments, const std::vector<Tried>& tried,
            const Tried& infeasible) {
  const plan::Infeasible& why = *infeasible.infeasible();
  if (arguments.json) std::cout << plan::to_json(why);
  std::cerr << "trireme: infeasible: "
            << (is_open(arguments.solver) ? "nothing fits; the leanest, " : "") << infeasible.solver
            << (is_open(arguments.solver) ? ", needs " : " needs ")
            << report::exact_text(why.needed) << " (" << why.where << "), the budget is "
            << report::exact_text(why.available) << "; the smallest budget that works is "
            << report::exact_text(why.least_budget) << "\n";
  if (const Tried* const other = fastest(tried))
    std::cerr << "trireme: " << other->solver << " fits, with "
              << report::time_text(other->plan()->step) << " per step\n";
  return kInfeasible;
}

void print_comparison(const std::vector<Tried>& tried, const OneRank& question, std::ostream& out) {
  out << comparison(tried, question);
  for (const Tried& one : tried) {
    if (!one.refused.empty()) out << one.solver << ": " << one.refused << "\n";
  }
  out << "\n";
}

}  // namespace
}  // namespace trireme::app
