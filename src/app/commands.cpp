// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include "check_command.h"
#include "exit_code.h"
#include "plan_command.h"
#include "simulate_command.h"

#include "trireme/core/error.h"
#include "trireme/core/out_of_memory.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/io/terminal.h"
#include "trireme/io/usage.h"
#include "trireme/poet/solve.h"
#include "trireme/schedule/named.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <iostream>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace trireme::app {
namespace {

constexpr int kMostBudgets = 1000;

void add_plan(CLI::App& app, PlanArguments& arguments);
/// Options of optimizer state and parameter offload, the overlapped optimizer step, split backward
/// and breadth-first groups.
void add_plan_places(CLI::App& command, PlanArguments& arguments);
/// Options of plans of a graph.
void add_plan_graph(CLI::App& command, PlanArguments& arguments);
/// Objective, deadline, trade-off.
void add_plan_goal(CLI::App& command, PlanArguments& arguments);
void add_plan_sweep(CLI::App& command, PlanArguments& arguments);
void add_plan_shape(CLI::App& command, PlanArguments& arguments);
void add_simulate(CLI::App& app, SimulateArguments& arguments);
CLI::App& add_check(CLI::App& app, CheckArguments& arguments);
/// Throws where two of these name one file, inputs first: what is written last would replace it.
void require_apart(const std::vector<std::pair<std::string, std::string>>& files);
/// Makes every option that names a file reject patterns that a shell would have expanded.
void check_paths(CLI::App& app);
/// The planner names parts of its question ("cut: has 3 entries"); those that an option gave are
/// named as the option ("--cut: has 3 entries").
std::string in_words_of_options(const CLI::App& app, const InputError& error);
/// Prints help or what is wrong; returns the exit code.
int give_up(const CLI::App& app, const CLI::ParseError& error);

}  // namespace

int run_pure(int argc, const char* const* argv) {
  const io::VisibleOutput out(std::cout), errors(std::cerr);
  CLI::App app(
      "Trains models that do not fit in device memory: pipeline, recomputation and offload "
      "planned together.",
      "trireme");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return io::usage_error(*failed, error.what());
  });
  app.set_version_flag("--version", "trireme " TRIREME_VERSION);
  app.add_subcommand("train",
                     "Train a job, alone or under mpirun -n RANKS (see trireme train --help)");
  app.add_subcommand("profile",
                     "Measure what every layer of a job costs (see trireme profile --help)");
  app.add_subcommand("export",
                     "Export the weights of a run for other programs (see trireme export --help)");
  app.add_subcommand("generate",
                     "Continue a text with a language model (see trireme generate --help)");
  app.add_subcommand(
      "pack-images",
      "Pack image files into one memory-mapped file (see trireme pack-images --help)");
  PlanArguments plan_arguments;
  SimulateArguments simulate_arguments;
  CheckArguments check_arguments;
  add_plan(app, plan_arguments);
  add_simulate(app, simulate_arguments);
  add_check(app, check_arguments);
  check_paths(app);
  // Otherwise a file that exceeds its size limit kills the process without a message.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    app.parse(argc, argv);
    const int code = app.got_subcommand("plan")       ? plan(plan_arguments)
                     : app.got_subcommand("simulate") ? simulate_plan(simulate_arguments)
                                                      : check(check_arguments);
    io::require_written(std::cout, "standard output");
    return code;
  } catch (const CLI::ParseError& error) {
    return give_up(app, error);
  } catch (const InputError& error) {
    std::cerr << "trireme: " << in_words_of_options(app, error) << "\n";
    return kWrongUse;
  } catch (const std::bad_alloc&) {
    std::cerr << "trireme: " << kOutOfMemory << "\n";
    return kFailed;
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << shown_words(error) << "\n";
    return kFailed;
  }
}

bool forecasts_a_job(int argc, const char* const* argv) {
  CLI::App app;
  CheckArguments arguments;
  CLI::App& command = add_check(app, arguments);
  command.allow_extras();
  for (const char* const of_the_runtime : {"--ranks", "-o,--output", "--report"})
    command.add_option(of_the_runtime);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError&) {
    // The command that runs says what is wrong.
  }
  for (const char* const other : {"--resolved", "--chain", "--help"})
    if (command.count(other) > 0) return false;
  return command.count("file") > 0 && is_job(command["file"]->results().front());
}

namespace {

void add_plan(CLI::App& app, PlanArguments& arguments) {
  CLI::App& command = *app.add_subcommand(
      "plan", "Choose what to keep, recompute or offload within a memory budget");
  CLI::Option_group* const what = command.add_option_group("What is planned");
  what->add_option("--chain", arguments.chain, "The chain of layers with its costs (YAML)");
  what->add_option("--graph", arguments.graph,
                   "A graph of operations with several inputs, forward and backward, for one "
                   "device (YAML)");
  what->require_option(1);
  command.add_option("--platform", arguments.platform,
                     "Memory, offload tier and copy rates of the ranks (YAML); without it only "
                     "--memory applies");
  command.add_option("--memory", arguments.memory,
                     "Budget of every rank, e.g. 12GiB; bytes without a unit");
  command
      .add_option("--stages", arguments.stages,
                  "Ranks of the pipeline, with one chunk of the chain each or with several")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()))
      ->capture_default_str();
  command
      .add_option("--micro-batches", arguments.micro_batches,
                  "Micro-batches per step (gradient accumulation steps)")
      ->check(CLI::Range(1, plan::kMaxMicroBatches))
      ->capture_default_str();
  command
      .add_option("--schedule", arguments.schedule,
                  "Order of passes, and chunks on every rank: auto is the fastest that fits")
      ->check(CLI::IsMember(schedule::schedule_choices()))
      ->capture_default_str();
  command
      .add_option("--cut", arguments.cut,
                  "Last layer of every stage but the last, e.g. 5,9; chosen where not given")
      ->delimiter(',');
  command
      .add_option("--solver", arguments.solver,
                  "A solver's name, 'auto' for the fastest plan that the search finds, 'all' to "
                  "compare every solver; for several stages also joint, madpipe, adapipe, "
                  "'uniform N', 'block N'; with --graph " +
                      join(poet::solver_names(), ", "))
      ->capture_default_str();
  command
      .add_option("--slots", arguments.slots,
                  "Slots into which solvers divide memory; 0: exact, where that is feasible")
      ->capture_default_str();
  add_plan_goal(command, arguments);
  add_plan_graph(command, arguments);
  add_plan_places(command, arguments);
  CLI::Option* const output =
      command.add_option("-o,--output", arguments.output, "Write the plan to this file (JSON)");
  command.get_option("--compact")->needs(output);
  CLI::Option* const report = command.add_option("--report", arguments.report,
                                                 "Write a page about the plan to this file (HTML)");
  CLI::Option* const json =
      command.add_flag("--json", arguments.json, "Print one JSON document and nothing else");
  CLI::Option* const why = command.add_flag(
      "--why", arguments.why,
      "Print why this plan was chosen: the fastest step without each axis that it uses, and the "
      "fastest decisions that were simulated");
  command.add_flag("--verbose", arguments.verbose, "With --why: every decision that was simulated")
      ->needs(why);
  why->excludes(json);
  add_plan_sweep(command, arguments);
  add_plan_shape(command, arguments);
  for (CLI::Option* const other : {output, report, why, command.get_option("--memory")})
    command.get_option("--sweep")->excludes(other);
  for (CLI::Option* const other : {output, report, why, json})
    command.get_option("--pareto")->excludes(other);
  command.footer(
      "Examples:\n"
      "  trireme plan --chain chain.yaml --memory 12GiB -o plan.json --report plan.html\n"
      "  trireme plan --chain chain.yaml --memory 12GiB --solver all\n"
      "  trireme plan --chain chain.yaml --platform nodes.yaml --stages 8 --why\n"
      "  trireme plan --chain chain.yaml --platform nodes.yaml --stages 8 --micro-batches 32\n"
      "  trireme plan --chain chain.yaml --platform nodes.yaml --ranks 8 --batch 64 "
      "--micro-batch-size 2\n"
      "  trireme plan --chain chain.yaml --sweep 20 --csv sweep.csv --plot sweep.html\n"
      "  trireme plan --chain chain.yaml --platform card.yaml --objective energy --deadline 1.1x\n"
      "  trireme plan --chain chain.yaml --platform card.yaml --pareto --plot energy.html\n"
      "Exit code 3: nothing fits; a budget that works is in the message.");
}

void add_plan_places(CLI::App& command, PlanArguments& arguments) {
  command
      .add_option(
          "--optimizer", arguments.optimizer,
          "Optimizer state offload: device (none), offload (all of it, copied to the device for "
          "its update), or auto (the share of the fastest plan found)")
      ->check(CLI::IsMember({"auto", "device", "offload"}))
      ->capture_default_str();
  command
      .add_option(
          "--weights", arguments.weights,
          "Parameter offload (weight streaming), for trained weights with their gradients: device "
          "(none), offload (copied to the device for each use of their layer), or auto (as "
          "many layers as the fastest plan found)")
      ->check(CLI::IsMember({"auto", "device", "offload"}))
      ->capture_default_str();
  command
      .add_option(
          "--updates", arguments.updates,
          "Overlapped optimizer step of layers whose weights are streamed: at_end of a step "
          "(none), in_forward (before their first forward of the next step), in_backward (after "
          "their last backward, for jobs that do not clip gradients), or auto (the faster of the "
          "first two)")
      ->check(CLI::IsMember({"auto", "at_end", "in_forward", "in_backward"}))
      ->capture_default_str();
  command
      .add_option(
          "--split-backward", arguments.split_backward,
          "Zero bubble in pipelines: backwards are split into gradients of inputs, then gradients "
          "of weights, which are deferred to fill the bubble; auto (where that is faster) or never")
      ->check(CLI::IsMember({"auto", "never"}))
      ->capture_default_str();
  command
      .add_option(
          "--group", arguments.group,
          "Breadth-first micro-batches: this many run through one layer before any goes to the "
          "next, so that streamed weights are copied once for all of them; chosen where not given")
      ->check(CLI::Range(1, plan::kMaxMicroBatches));
}

void add_plan_graph(CLI::App& command, PlanArguments& arguments) {
  command
      .add_option(
          "--time-limit", arguments.time_limit,
          "With --graph: seconds after which the best schedules so far are taken, for the whole "
          "command")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command.add_flag("--compact", arguments.compact,
                   "With --graph: -o writes the schedule alone, in one line for a device");
  // A graph is planned for one device, whole.
  for (const char* const other : {"--stages", "--micro-batches", "--schedule", "--cut", "--slots"})
    command.get_option(other)->excludes(command.get_option_no_throw("--graph"));
}

void add_plan_goal(CLI::App& command, PlanArguments& arguments) {
  command
      .add_option("--objective", arguments.objective,
                  "time: the fastest step; energy: the step of least energy, where the chain or "
                  "the platform says what energy costs")
      ->check(CLI::IsMember(partition::objective_names()))
      ->capture_default_str();
  command
      .add_option("--deadline", arguments.deadline,
                  "Longest step allowed: a time such as 120ms, a factor of the fastest step such "
                  "as 1.1x, or none")
      ->capture_default_str();
  command.add_flag("--pareto", arguments.pareto,
                   "Print the trade-off between time and energy: plans of which none is both "
                   "faster and takes less energy (CSV)");
}

void add_plan_sweep(CLI::App& command, PlanArguments& arguments) {
  CLI::Option* const sweep =
      command
          .add_option(
              "--sweep", arguments.sweep,
              "Plan for this many budgets, from the least that works to what keep_all needs, "
              "with every solver")
          ->check(CLI::Range(2, kMostBudgets));
  sweep->excludes("--pareto");
  command.add_option("--csv", arguments.csv,
                     "Write the numbers of --sweep or --pareto to this file (CSV)");
  command.add_option("--plot", arguments.plot,
                     "Write a plot to this file (HTML): with --sweep time against memory, with "
                     "--pareto energy against time");
  command.callback([&command, &arguments] {
    for (const char* const file : {"--csv", "--plot"})
      if (command.count(file) > 0 && arguments.sweep == 0 && !arguments.pareto)
        throw CLI::RequiresError(file, "--sweep or --pareto");
    arguments.stages_given = command.count("--stages") > 0;
    arguments.micro_batches_given = command.count("--micro-batches") > 0;
    require_apart({{"--chain", arguments.chain},
                   {"--platform", arguments.platform},
                   {"--output", arguments.output},
                   {"--report", arguments.report},
                   {"--csv", arguments.csv},
                   {"--plot", arguments.plot}});
  });
}

void add_plan_shape(CLI::App& command, PlanArguments& arguments) {
  CLI::Option* const ranks =
      command
          .add_option(
              "--ranks", arguments.ranks,
              "Choose stages, replicas and micro-batches for this many ranks; values given by "
              "other options stay fixed")
          ->check(CLI::Range(1, 4096));
  const CLI::Range positive(1, std::numeric_limits<int>::max());
  command.add_option("--batch", arguments.batch, "Examples per step over all replicas")
      ->check(positive)
      ->needs(ranks);
  command
      .add_option("--micro-batch-size", arguments.measured_at,
                  "Examples of the micro-batch with which the chain was measured; other sizes are "
                  "estimated in proportion")
      ->check(positive)
      ->needs(ranks);
  command.add_option("--replicas", arguments.replicas, "Data-parallel copies of the pipeline")
      ->check(positive)
      ->needs(ranks);
  command
      .add_flag(
          "--shard-optimizer,!--no-shard-optimizer", arguments.shard_optimizer,
          "Shard the optimizer state over the replicas (ZeRO-1); with --no-, each has all of it")
      ->needs(ranks);
}

void add_simulate(CLI::App& app, SimulateArguments& arguments) {
  CLI::App& command =
      *app.add_subcommand("simulate", "Simulate a plan on its platform: times and memory");
  command.add_option("plan", arguments.files.plan, "The plan (JSON)")->required();
  CLI::Option_group* const what = command.add_option_group("What it is for");
  what->add_option("--chain", arguments.files.chain, "The chain (YAML)");
  what->add_option("--graph", arguments.graph, "The graph (YAML); needs --platform");
  what->require_option(1);
  command.add_option(
      "--platform", arguments.files.platform,
      "The platform that it runs on (YAML); without it the plan's own budgets and free links");
  command.add_option(
      "--trace", arguments.trace,
      "Write a timeline to this file (JSON for chrome://tracing and ui.perfetto.dev)");
  command.add_option("--report", arguments.report,
                     "Write a page about the plan to this file (HTML)");
  command.add_flag("--json", arguments.json, "Print one JSON document and nothing else");
  command.callback([&arguments] {
    require_apart({{"the plan", arguments.files.plan},
                   {"--chain", arguments.files.chain},
                   {"--platform", arguments.files.platform},
                   {"--trace", arguments.trace},
                   {"--report", arguments.report}});
  });
  command.footer("Example:\n  trireme simulate plan.json --chain chain.yaml --trace trace.json");
}

CLI::App& add_check(CLI::App& app, CheckArguments& arguments) {
  CLI::App& command = *app.add_subcommand(
      "check", "Validate a job, plan, chain or platform and predict its cost; trains nothing");
  command.add_option("file", arguments.file, "A job, chain or platform (YAML), or a plan (JSON)")
      ->required();
  command
      .add_option("--set", arguments.settings,
                  "For a job, replace one value: section.key=value (may be repeated)")
      ->allow_extra_args(false);
  command.add_flag(
      "--resolved", arguments.resolved,
      "For a job, only print it with all defaults written out; without it the job is measured "
      "(measurements are kept in runs/.profiles) and planned (then with --ranks N, the ranks to "
      "plan for, -o plan.json, --report plan.html)");
  command.add_option("--chain", arguments.chain, "For a plan, its chain");
  command.add_option("--platform", arguments.platform, "For a plan, the platform that it runs on");
  command.add_flag("--json", arguments.json, "Print one JSON document and nothing else");
  command.footer(
      "Examples:\n"
      "  trireme check configs/quickstart.yaml --set memory.device_budget=48MiB\n"
      "  trireme check configs/quickstart.yaml --resolved\n"
      "  trireme check plan.json --chain chain.yaml");
  return command;
}

std::string in_words_of_options(const CLI::App& app, const InputError& error) {
  const std::string words = shown_words(error);
  if (!app.got_subcommand("plan")) return words;
  for (const char* const part :
       {"cut", "group", "ranks", "schedule", "slots", "stages", "updates"}) {
    const std::string option = concat("--", part);
    if (words.starts_with(concat(part, ":")) && app.get_subcommand("plan")->count(option) > 0)
      return "--" + words;
  }
  return words;
}

int give_up(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> before = app.remaining(/*recurse=*/false);
  if (before.empty() || before.front().starts_with("-"))
    return app.exit(error) == 0 ? kDone : kWrongUse;
  std::vector<std::string> commands;
  for (const CLI::App* const each : app.get_subcommands(nullptr))
    commands.push_back(each->get_name());
  std::cerr << "trireme: '" << visible(before.front()) << "' is no command"
            << did_you_mean(before.front(), commands) << ", must be one of " << join(commands, ", ")
            << "\n";
  return kWrongUse;
}

void check_paths(CLI::App& app) {
  for (CLI::App* const command : app.get_subcommands({}))
    for (const char* const name : {"plan", "file", "--chain", "--platform", "--output", "--report",
                                   "--trace", "--csv", "--plot"})
      if (CLI::Option* const option = command->get_option_no_throw(name))
        option->check([](const std::string& path) { return io::unexpanded(path).value_or(""); });
}

void require_apart(const std::vector<std::pair<std::string, std::string>>& files) {
  if (const auto clash = io::find_clash(files))
    throw CLI::ValidationError(clash->option, clash->reason);
}

}  // namespace
}  // namespace trireme::app
