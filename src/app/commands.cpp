// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include "trireme/config/job.h"
#include "trireme/core/error.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <string>
#include <vector>

namespace trireme::app {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

struct CheckArguments {
  std::string file;
  std::vector<std::string> settings;
};

int check(const CheckArguments& arguments) {
  const config::JobSpec job =
      config::load_job(arguments.file, {.settings = arguments.settings, .own_models = {}});
  std::cout << config::to_yaml(job);
  std::cerr << arguments.file << " is a good job: " << config::micro_batches(job)
            << " micro-batches per step and replica\n";
  return 0;
}

}  // namespace

int run_pure(int argc, const char* const* argv) {
  CLI::App app(
      "Trains a chain of layers that does not fit: pipeline, recompute and offload planned "
      "together.",
      "trireme");
  app.require_subcommand(1);
  app.add_subcommand("train",
                     "Train a job, alone or under mpirun -n RANKS (see trireme train --help)");
  CheckArguments check_arguments;
  CLI::App* const check_command = app.add_subcommand(
      "check", "Read a job strictly, print it with every default written out, change nothing");
  check_command->add_option("file", check_arguments.file, "The job, a YAML file")->required();
  check_command->add_option("--set", check_arguments.settings,
                            "Replace one value: section.key=value (may be repeated)");
  check_command->footer("Example:\n  trireme check configs/quickstart.yaml --set train.batch=64");
  try {
    app.parse(argc, argv);
    return check(check_arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUse;
  } catch (const InputError& error) {
    std::cerr << "trireme: " << error.what() << "\n";
    return kWrongUse;
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << error.what() << "\n";
    return kFailed;
  }
}

}  // namespace trireme::app
