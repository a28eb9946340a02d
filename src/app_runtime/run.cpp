// SPDX-License-Identifier: Apache-2.0
#include "trireme/app_runtime/run.h"

#include "profile_command.h"
#include "train_command.h"

#include <CLI/CLI.hpp>

namespace trireme::app {
namespace {

constexpr int kWrongUse = 2;

void add_train(CLI::App& app, TrainArguments& arguments);
void add_profile(CLI::App& app, ProfileArguments& arguments);

}  // namespace

int run(int argc, const char* const* argv, const model::ModelRegistry& own) {
  CLI::App app(
      "Trains a chain of layers that does not fit: pipeline, recompute and offload planned "
      "together.",
      "trireme");
  app.require_subcommand(1);
  TrainArguments train_arguments;
  ProfileArguments profile_arguments;
  add_train(app, train_arguments);
  add_profile(app, profile_arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUse;
  }
  return app.got_subcommand("profile") ? profile(profile_arguments, own)
                                       : train(train_arguments, own);
}

namespace {

void add_train(CLI::App& app, TrainArguments& arguments) {
  CLI::App& command = *app.add_subcommand("train", "Train a job, alone or under mpirun -n RANKS");
  command.add_option("job", arguments.job_file, "The job, a YAML file")->required();
  command.add_option("--set", arguments.settings,
                     "Replace one value of the job: section.key=value (may be repeated)");
  command.add_flag("--json", arguments.json,
                   "Print the summary as one JSON document on standard output");
  command.footer(
      "Example:\n  trireme train configs/quickstart.yaml --set train.steps=50\n"
      "  mpirun -n 2 trireme train configs/quickstart.yaml");
}

void add_profile(CLI::App& app, ProfileArguments& arguments) {
  CLI::App& command = *app.add_subcommand(
      "profile", "Measure time and memory of every layer of a job on this machine");
  command.add_option("job", arguments.job_file, "The job, a YAML file")->required();
  command.add_option("-o,--output", arguments.output,
                     "Write the chain there (YAML), for trireme plan --chain");
  command.add_option("--set", arguments.settings,
                     "Replace one value of the job: section.key=value (may be repeated)");
  command.add_flag("--fresh", arguments.fresh,
                   "Measure again where the same was measured before (runs/.profiles)");
  command.add_flag("--json", arguments.json, "Print one JSON document and nothing else");
  command.footer(
      "Example:\n  trireme profile configs/quickstart.yaml -o chain.yaml\n"
      "One process measures, with the threads that a rank of the job has: for a run under\n"
      "mpirun -n 2, say --set pipeline.stages=2.");
}

}  // namespace
}  // namespace trireme::app
