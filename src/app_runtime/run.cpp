// SPDX-License-Identifier: Apache-2.0
#include "trireme/app_runtime/run.h"

#include "train_command.h"

#include <CLI/CLI.hpp>

namespace trireme::app {
namespace {

constexpr int kWrongUse = 2;

}  // namespace

int run(int argc, const char* const* argv, const model::ModelRegistry& own) {
  CLI::App app(
      "Trains a chain of layers that does not fit: pipeline, recompute and offload planned "
      "together.",
      "trireme");
  app.require_subcommand(1);
  TrainArguments arguments;
  CLI::App* const train_command =
      app.add_subcommand("train", "Train a job, alone or under mpirun -n RANKS");
  train_command->add_option("job", arguments.job_file, "The job, a YAML file")->required();
  train_command->add_option("--set", arguments.settings,
                            "Replace one value of the job: section.key=value (may be repeated)");
  train_command->add_flag("--json", arguments.json,
                          "Print the summary as one JSON document on standard output");
  train_command->footer(
      "Example:\n  trireme train configs/quickstart.yaml --set train.steps=50\n"
      "  mpirun -n 2 trireme train configs/quickstart.yaml");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUse;
  }
  return train(arguments, own);
}

}  // namespace trireme::app
