// SPDX-License-Identifier: Apache-2.0
#include "plan_command.h"

#include "choose.h"
#include "exit_code.h"
#include "graph_command.h"
#include "patience.h"
#include "shape_command.h"
#include "sweep.h"
#include "trade_off_command.h"
#include "why.h"

#include "trireme/chain/layer_range.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/io/sizes.h"
#include "trireme/partition/goal.h"
#include "trireme/report/plan_page.h"
#include "trireme/report/text.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

namespace trireme::app {
namespace {

/// Whether the goal is another than the fastest step.
bool has_goal(const PlanArguments& arguments) {
  const partition::Goal goal = goal_of(arguments);
  return goal.objective != partition::Objective::kTime || !goal.deadline.is_any();
}

using partition::Question;

/// Prints assumptions to standard error.
Question read_question(const PlanArguments& arguments);
/// The platform's ranks for the stages, one each.
chain::Platform read_platform(const PlanArguments& arguments);
/// The fastest plan of all solvers, for one stage; prints every solver's result.
partition::Answer answer_of_all(const PlanArguments& arguments, const Question& question);
partition::Explained planned_for(const PlanArguments& arguments, const Question& question);

/// Chooses stages, replicas and micro-batches first.
int plan_for_ranks(const PlanArguments& arguments);

/// Prints the plan and writes the requested files; returns the exit code.
int give(const PlanArguments& arguments, const Question& question,
         const partition::Explained& explained);
int give(const PlanArguments& arguments, const Question& question, const plan::Plan& plan);

}  // namespace

int plan(const PlanArguments& arguments) {
  for (const std::string& file :
       {arguments.output, arguments.report, arguments.csv, arguments.plot})
    io::require_writable(file);
  if (!arguments.graph.empty()) return plan_graph(arguments);
  if (arguments.ranks > 0) return plan_for_ranks(arguments);
  const Question question = read_question(arguments);
  if (arguments.stages > 1 && (arguments.sweep > 0 || arguments.solver == "all"))
    throw InputError(concat(arguments.sweep > 0 ? "--sweep" : "--solver all",
                            ": is for one stage, but --stages is ", arguments.stages));
  if (arguments.sweep > 0 && has_goal(arguments))
    throw InputError(
        "--sweep: compares times, so it cannot be used with --objective energy or --deadline");
  if (arguments.sweep > 0) return sweep(arguments, question);
  if (arguments.solver == "auto" && arguments.stages == 1) tell_left_out(question);
  if (arguments.why && arguments.solver == "all")
    throw InputError("--why: explains one search, so it cannot be used with --solver all");
  if (arguments.solver == "all" && (arguments.pareto || has_goal(arguments)))
    throw InputError(
        "--solver all: compares solvers by time, so it cannot be used with --objective energy, "
        "--deadline or --pareto");
  if (arguments.solver == "all")
    return give(arguments, question, {answer_of_all(arguments, question), {}});
  if (arguments.pareto) return trade_off(arguments, question);
  return give(arguments, question, planned_for(arguments, question));
}

std::optional<Bytes> memory_of(const PlanArguments& arguments) {
  if (arguments.memory.empty()) return std::nullopt;
  const std::optional<Bytes> memory = parse_bytes(arguments.memory);
  if (!memory || *memory == Bytes(0))
    throw InputError(
        concat("--memory: is '", arguments.memory, "', must be a size such as 12GiB or 4096"));
  return memory;
}

partition::Goal goal_of(const PlanArguments& arguments) {
  const std::optional<partition::Deadline> deadline = partition::deadline_of(arguments.deadline);
  if (!deadline)
    throw InputError(
        concat("--deadline: is '", arguments.deadline, "', must be ", partition::kDeadlines));
  return {.objective = partition::objective_named(arguments.objective).value(),
          .deadline = *deadline};
}

void take_options(const PlanArguments& arguments, Question& question) {
  partition::set_schedule(question, arguments.schedule);
  question.solver = arguments.solver;
  question.slots = arguments.slots;
  question.optimizer_copies = partition::optimizer_copies_of(arguments.optimizer);
  question.group = arguments.group;
  question.splits_backward = arguments.split_backward == "auto";
  question.updates = partition::updates_of(arguments.updates);
}

namespace {

void require_offload_tier(const PlanArguments& arguments, const chain::Platform& platform) {
  const auto require = [&](const char* option, const std::string& place, const char* rates,
                           bool (*has_one)(const chain::RankSpec&)) {
    if (place == "offload" && std::none_of(platform.ranks.begin(), platform.ranks.end(), has_one))
      throw InputError(
          concat(option,
                 ": is offload, but no rank has an offload tier: give a --platform with "
                 "host or disk bytes and the rates of copies, ",
                 rates));
  };
  require("--optimizer", arguments.optimizer, "out_bytes_per_s and in_bytes_per_s",
          partition::can_move_state);
  require("--weights", arguments.weights, "in_bytes_per_s", partition::can_stream);
}

Question read_question(const PlanArguments& arguments) {
  Question question;
  question.chain = chain::load_chain(arguments.chain);
  question.platform = read_platform(arguments);
  question.stages = arguments.stages;
  question.micro_batches = arguments.micro_batches;
  take_options(arguments, question);
  question.streamed = partition::streamed_layers_of(arguments.weights, question.chain);
  question.weights_at_once = std::nullopt;
  require_offload_tier(arguments, question.platform);
  if (arguments.weights == "device" && arguments.updates.starts_with("in_"))
    throw InputError(concat("--updates: is ", arguments.updates,
                            ", a time for layers whose weights are streamed, but --weights is "
                            "device: leave one of them out"));
  if (!arguments.cut.empty()) question.cut = arguments.cut;
  const std::optional<Bytes> given = memory_of(arguments);
  for (chain::RankSpec& rank : question.platform.ranks) rank.memory = given.value_or(rank.memory);
  const std::vector<chain::RankSpec>& ranks = question.platform.ranks;
  const bool has_budget = std::any_of(ranks.begin(), ranks.end(), [](const chain::RankSpec& rank) {
    return rank.memory > Bytes(0);
  });
  if (has_budget || given) return question;
  if (arguments.stages > 1) {
    std::cerr << "no memory given: planning without recomputation or offload\n";
    return question;
  }
  Bytes& memory = question.platform.ranks.front().memory;
  memory = partition::keep_all_budget(question);
  if (arguments.sweep == 0)
    std::cerr << "no memory given: taking what keep_all needs, " << report::exact_text(memory)
              << "\n";
  return question;
}

partition::Explained planned_for(const PlanArguments& arguments, const Question& question) {
  const Patience patience(concat("planning ", count_of(question.chain.length(), "layer"), " ..."));
  return partition::plan_for(question, goal_of(arguments));
}

/// The goal's plan of a shape, where the goal is not the shape's own: the fastest step.
partition::Explained plan_of_shape(const PlanArguments& arguments, const Question& question,
                                   const partition::Answer& fastest) {
  if (has_goal(arguments)) return planned_for(arguments, question);
  return arguments.why ? partition::explained_plan(question) : partition::Explained{fastest, {}};
}

partition::ShapeAnswer shape_of(const PlanArguments& arguments,
                                const partition::ShapeQuestion& question) {
  const Patience patience(
      concat("planning shapes for up to ", count_of(arguments.ranks, "rank"), " ..."));
  return partition::choose_shape(question);
}

int plan_for_ranks(const PlanArguments& arguments) {
  PlanArguments whole = arguments;
  whole.stages = arguments.ranks;
  chain::Platform platform = read_platform(whole);
  require_offload_tier(arguments, platform);
  const std::optional<Bytes> given = memory_of(arguments);
  for (chain::RankSpec& rank : platform.ranks) rank.memory = given.value_or(rank.memory);
  const partition::ShapeQuestion question = shape_question(arguments, std::move(platform));
  const partition::ShapeAnswer answer = shape_of(arguments, question);
  (arguments.json ? std::cerr : std::cout)
      << partition::to_text(answer)
      << "\nTimes and bytes of other sizes than the measured one are in proportion to the size of "
         "the micro-batch: an estimate.\n\n";
  const partition::TriedShape& tried =
      answer.tried[answer.chosen ? *answer.chosen : partition::leanest(answer)];
  whole.stages = tried.shape.stages;
  const Question asked =
      question_of(question, tried.shape, question.chain_at(tried.shape.micro_batch));
  if (arguments.pareto) return trade_off(whole, asked);
  return give(whole, asked, plan_of_shape(arguments, asked, *tried.answer));
}

chain::Platform read_platform(const PlanArguments& arguments) {
  // More stages than a chain has layers are refused by the planner.
  if (arguments.platform.empty())
    return chain::uniform_platform(std::min(arguments.stages, chain::kMaxLayers), Bytes(0));
  chain::Platform platform = chain::load_platform(arguments.platform);
  const auto stages = static_cast<std::size_t>(arguments.stages);
  if (platform.ranks.size() < stages)
    throw InputError(concat(arguments.platform, ": has ", platform.ranks.size(), " ranks, but ",
                            arguments.ranks > 0 ? "--ranks" : "--stages", " is ", stages));
  if (platform.ranks.size() == stages) return platform;
  std::cerr << "planning for " << (stages > 1 ? "ranks " : "rank ")
            << range_text(0, arguments.stages - 1) << " of the " << platform.ranks.size() << " in "
            << visible(arguments.platform) << "\n";
  return chain::first_ranks(std::move(platform), arguments.stages);
}

partition::Answer answer_of_all(const PlanArguments& arguments, const Question& question) {
  const Comparison comparison = compare(question, solve::solver_names());
  const partition::Tried* const chosen = partition::fastest(comparison.tried);
  const partition::Tried* const leanest = partition::leanest(comparison.tried);
  if (chosen == nullptr && leanest == nullptr) throw InputError(comparison.tried.front().refused);
  (arguments.json ? std::cerr : std::cout) << to_text(comparison, question);
  if (chosen == nullptr) return *leanest->infeasible();
  plan::Plan plan = *chosen->plan();
  plan.alternatives = partition::alternatives(comparison.tried, *chosen);
  return plan;
}

int give(const PlanArguments& arguments, const Question& question,
         const partition::Explained& explained) {
  const auto* const plan = std::get_if<plan::Plan>(&explained.answer);
  const int code = plan != nullptr
                       ? give(arguments, question, *plan)
                       : give_up(arguments, question, std::get<plan::Infeasible>(explained.answer));
  if (arguments.why) std::cout << why_text(explained, arguments.verbose);
  return code;
}

int give(const PlanArguments& arguments, const Question& question, const plan::Plan& plan) {
  const simulate::Simulation timeline =
      partition::simulated(question, plan, simulate::Detail::kTimeline);
  if (!arguments.output.empty()) io::write_file(arguments.output, plan::to_json(plan));
  if (!arguments.report.empty())
    io::write_file(arguments.report, report::plan_page(plan, question.chain, timeline));
  if (arguments.json) {
    std::cout << plan::to_json(plan);
    return kDone;
  }
  std::cout << report::plan_text(plan, question.chain, timeline);
  for (const std::string& file : {arguments.output, arguments.report}) {
    if (!file.empty()) std::cout << "written: " << visible(file) << "\n";
  }
  return kDone;
}

/// "--memory is 30MiB", or the rank's memory in the platform's file.
std::string budget_text(const PlanArguments& arguments, const plan::Infeasible& why) {
  if (!arguments.memory.empty())
    return concat("--memory is ", arguments.memory, io::forgotten_unit(arguments.memory));
  const std::string has = concat("memory of rank ", why.rank, " is ", to_text(why.available));
  return arguments.platform.empty() ? has : concat(arguments.platform, ": ", has);
}

/// Changes that would make a plan fit: budgets that were planned with, rounded up, and the
/// planner's advice.
std::string ways_out(const Question& question, const plan::Infeasible& why) {
  const std::vector<chain::RankSpec>& ranks = question.platform.ranks;
  const bool alike = std::all_of(ranks.begin(), ranks.end(), [&](const chain::RankSpec& rank) {
    return rank.memory == ranks.front().memory;
  });
  std::vector<std::string> ways;
  if (alike) {
    ways.push_back(concat("--memory ", io::size_of_at_least(why.least_budget)));
  } else {
    const double times = why.least_budget / std::max(Bytes(1), why.available);
    ways.push_back(concat("every rank ", std::ceil(times * 1000) / 1000, " times its memory"));
  }
  for (const plan::Advice& one : why.advice) ways.push_back(one.change);
  return join(ways, ", or ");
}

/// The question with all options but the cut left open; empty where they already are.
std::optional<Question> left_open(const PlanArguments& arguments, const Question& question) {
  PlanArguments open = arguments;
  open.solver = open.optimizer = open.weights = open.updates = open.split_backward = "auto";
  open.group = std::nullopt;
  Question all = question;
  take_options(open, all);
  all.streamed = std::nullopt;
  const bool is_open = question.solver == all.solver && !question.optimizer_copies &&
                       !question.streamed && !question.updates && !question.group &&
                       question.splits_backward;
  return is_open ? std::nullopt : std::optional(std::move(all));
}

/// Says that no plan meets the deadline, and what would.
int give_up_in_time(const PlanArguments& arguments, const plan::Infeasible& why) {
  if (arguments.json) std::cout << plan::to_json(why);
  std::cerr << "trireme: --deadline is " << arguments.deadline << ", but the fastest step found in "
            << to_text(why.available) << " takes " << report::time_text(why.least_step)
            << ". Give --deadline " << io::time_of_at_least(why.least_step) << " or later";
  if (why.least_budget > Bytes(0))
    std::cerr << ", or --memory " << io::size_of_at_least(why.least_budget);
  std::cerr << "\n";
  return kInfeasible;
}

}  // namespace

int give_up(const PlanArguments& arguments, const Question& question, const plan::Infeasible& why) {
  if (why.reason == plan::Infeasible::Reason::kDeadline) return give_up_in_time(arguments, why);
  const bool open = arguments.solver == "auto" || arguments.solver == "all";
  // Shapes are compared by quick plans, which may find none where there is one.
  const bool is_exact = arguments.ranks == 0 && partition::has_exact_least_budget(question);
  if (arguments.json) std::cout << plan::to_json(why);
  std::cerr << "trireme: " << visible(budget_text(arguments, why)) << ", in which "
            << (open ? "nothing fits" : concat(arguments.solver, " does not fit")) << "; "
            << report::least_budget_text(why.least_budget, is_exact);
  if (arguments.stages > 1)
    std::cerr << "; the tightest stage, "
              << layers_text(chain::LayerRange{why.first_layer, why.last_layer}) << " on rank "
              << why.rank << ", needs " << report::exact_text(why.needed);
  if (!why.where.empty()) std::cerr << ": " << why.where;
  std::cerr << ". Give " << ways_out(question, why) << "\n";
  if (arguments.solver == "all") return kInfeasible;
  const std::optional<Question> any = left_open(arguments, question);
  if (!any) return kInfeasible;
  const partition::Answer answer = partition::plan(*any);
  if (const auto* other = std::get_if<plan::Plan>(&answer))
    std::cerr << "trireme: without the options that fix a part of the plan, " << other->solver
              << " fits, with " << report::time_text(other->step) << " per step\n";
  return kInfeasible;
}

}  // namespace trireme::app
