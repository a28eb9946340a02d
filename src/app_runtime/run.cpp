// SPDX-License-Identifier: Apache-2.0
#include "trireme/app_runtime/run.h"

#include "commands/check_command.h"
#include "commands/export_command.h"
#include "commands/generate_command.h"
#include "commands/pack_command.h"
#include "commands/profile_command.h"
#include "commands/train_command.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/io/terminal.h"
#include "trireme/io/usage.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <exception>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::app {
namespace {

constexpr int kFailed = 1, kWrongUse = 2;

void add_train(CLI::App& app, TrainArguments& arguments);
void add_profile(CLI::App& app, ProfileArguments& arguments);
/// `check` and `plan` of a job are the same question; `check` opens its data and weights, too.
void add_forecast(CLI::App& app, const std::string& name, ForecastArguments& arguments);
void add_export(CLI::App& app, ExportArguments& arguments);
void add_generate(CLI::App& app, GenerateArguments& arguments);
void add_pack(CLI::App& app, PackArguments& arguments);
/// Throws where two of these name one file, inputs first: what is written last would replace it.
void require_apart(const std::vector<std::pair<std::string, std::string>>& files);
/// Makes every option that names a file refuse what a shell should have expanded.
void check_paths(CLI::App& app);
/// Adds --step to a command that reads checkpoints.
void add_step(CLI::App& command, std::optional<std::int64_t>& step);

/// A command's exit code: a failure, too, if standard output could not be written.
int delivered(int code);

}  // namespace

int run(int argc, const char* const* argv, const model::ModelRegistry& own) {
  io::open_standard_descriptors();
  const io::VisibleOutput out(std::cout), errors(std::cerr);
  CLI::App app(
      "Trains a chain of layers that does not fit: pipeline, recompute and offload planned "
      "together.",
      "trireme");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return io::usage_error(*failed, error.what());
  });
  TrainArguments train_arguments;
  ProfileArguments profile_arguments;
  add_train(app, train_arguments);
  ForecastArguments forecast_arguments;
  add_profile(app, profile_arguments);
  add_forecast(app, "check", forecast_arguments);
  add_forecast(app, "plan", forecast_arguments);
  ExportArguments export_arguments;
  add_export(app, export_arguments);
  GenerateArguments generate_arguments;
  add_generate(app, generate_arguments);
  PackArguments pack_arguments;
  add_pack(app, pack_arguments);
  check_paths(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUse;
  }
  forecast_arguments.opens_inputs = app.got_subcommand("check");
  const bool forecasts = app.got_subcommand("check") || app.got_subcommand("plan");
  return delivered(app.got_subcommand("profile")       ? profile(profile_arguments, own)
                   : forecasts                         ? forecast(forecast_arguments, own)
                   : app.got_subcommand("export")      ? export_run(export_arguments, own)
                   : app.got_subcommand("generate")    ? generate(generate_arguments, own)
                   : app.got_subcommand("pack-images") ? pack(pack_arguments)
                                                       : train(train_arguments, own));
}

namespace {

void add_train(CLI::App& app, TrainArguments& arguments) {
  CLI::App& command = *app.add_subcommand("train", "Train a job, alone or under mpirun -n RANKS");
  command.add_option("job", arguments.training.job.file, "The job, a YAML file")->required();
  command
      .add_option("--set", arguments.training.job.settings,
                  "Replace one value of the job: section.key=value (may be repeated)")
      ->allow_extra_args(false);
  command.add_flag("--json", arguments.json,
                   "Print the summary as one JSON document on standard output");
  command.add_option(
      "--report", arguments.report,
      "Also write the page on the run to this file (HTML; the run's folder has one)");
  command.add_option("--trace", arguments.trace,
                     "Write the last step's timeline there (JSON for chrome://tracing and "
                     "ui.perfetto.dev)");
  command.callback([&arguments] {
    require_apart({{"the job", arguments.training.job.file},
                   {"--report", arguments.report},
                   {"--trace", arguments.trace}});
  });
  command.footer(
      "Examples:\n  trireme train configs/quickstart.yaml --set train.steps=50\n"
      "  trireme train configs/quickstart.yaml --set memory.device_budget=48MiB\n"
      "  mpirun -n 2 trireme train configs/quickstart.yaml");
}

void add_profile(CLI::App& app, ProfileArguments& arguments) {
  CLI::App& command = *app.add_subcommand(
      "profile", "Measure time and memory of every layer of a job on this machine");
  command.add_option("job", arguments.job_file, "The job, a YAML file")->required();
  command.add_option("-o,--output", arguments.output,
                     "Write the chain there (YAML), for trireme plan --chain");
  command
      .add_option("--set", arguments.settings,
                  "Replace one value of the job: section.key=value (may be repeated)")
      ->allow_extra_args(false);
  command.add_flag("--fresh", arguments.fresh,
                   "Measure again where the same was measured before (runs/.profiles)");
  command.add_flag("--json", arguments.json, "Print one JSON document and nothing else");
  command.callback([&arguments] {
    require_apart({{"the job", arguments.job_file}, {"--output", arguments.output}});
  });
  command.footer(
      "Example:\n  trireme profile configs/quickstart.yaml -o chain.yaml\n"
      "One process measures, with the threads that a rank of the job has: for a run under\n"
      "mpirun -n 2, say --set pipeline.stages=2.");
}

void add_forecast(CLI::App& app, const std::string& name, ForecastArguments& arguments) {
  CLI::App& command =
      *app.add_subcommand(name, "Plan a job and say what a run would cost, without running it");
  command.add_option("job", arguments.planning.job.file, "The job, a YAML file")->required();
  command
      .add_option("--set", arguments.planning.job.settings,
                  "Replace one value of the job: section.key=value (may be repeated)")
      ->allow_extra_args(false);
  command
      .add_option("--ranks", arguments.planning.ranks,
                  "Ranks that the run is to have; else the job's stages x replicas, 1 for auto")
      ->check(CLI::Range(1, 4096));
  command.add_option("-o,--output", arguments.planning.plan_file, "Write the plan there (JSON)");
  command.add_option("--report", arguments.planning.page, "Write a page on the plan there (HTML)");
  command.add_flag("--json", arguments.json, "Print the plan as one JSON document");
  command.callback([&arguments] {
    require_apart({{"the job", arguments.planning.job.file},
                   {"--output", arguments.planning.plan_file},
                   {"--report", arguments.planning.page}});
  });
  command.footer("Example:\n  trireme " + name +
                 " configs/small-memory.yaml --set memory.device_budget=64MiB\n"
                 "Exit code 3: nothing fits; a budget that works is in the message.");
}

void add_export(CLI::App& app, ExportArguments& arguments) {
  CLI::App& command = *app.add_subcommand(
      "export", "Write what a run has learned for other programs (safetensors)");
  command.add_option("run", arguments.run, "A run's folder, or a checkpoint's")->required();
  command
      .add_option(
          "-o,--output", arguments.output,
          "A new folder, as Hugging Face's transformers read it; or a single file NAME.safetensors")
      ->required();
  command.add_option("--type", arguments.type, "Type of the values: float32, bfloat16 or float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  command.add_flag("--adapters", arguments.adapters,
                   "The adapters alone, as Hugging Face's peft reads them, instead of a model that "
                   "contains them");
  add_step(command, arguments.step);
  command.footer("Example:\n  trireme export runs/quickstart -o my-model --type bfloat16");
}

void add_generate(CLI::App& app, GenerateArguments& arguments) {
  CLI::App& command = *app.add_subcommand("generate", "Continue a text with a language model");
  command
      .add_option("model", arguments.model,
                  "A run's folder, a checkpoint's, or one with weights (trireme export)")
      ->required();
  CLI::Option* const prompt = command.add_option("--prompt", arguments.prompt,
                                                 "The text, for models whose tokens are bytes");
  command
      .add_option_function<std::vector<std::string>>(
          "--prompt-tokens",
          [&arguments](const std::vector<std::string>& pieces) {
            arguments.prompt_tokens = join(pieces, ",");
          },
          "The numbers of its tokens, e.g. 464,2068; numbers are printed, too")
      ->excludes(prompt);
  command.add_option("--tokens", arguments.tokens, "Number of tokens to generate")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()))
      ->capture_default_str();
  command
      .add_option("--until", arguments.until, "Stop token, not printed: 0 ends documents of bytes")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  command
      .add_option("--temperature", arguments.temperature,
                  "Below 1 likely tokens become likelier; 0: always the most likely one")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  command.add_option("--top-k", arguments.top_k, "Sample among the k most likely tokens; 0: all")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()))
      ->capture_default_str();
  command.add_option("--seed", arguments.seed, "The same seed, the same text")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  command.add_option("--device", arguments.device, "Where it computes, in float32: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  add_step(command, arguments.step);
  command.footer(
      "Example:\n  trireme generate runs/quickstart --prompt 'This License' --temperature 0.8\n"
      "One text at a time: to try a model, not to serve it.");
}

void add_pack(CLI::App& app, PackArguments& arguments) {
  CLI::App& command = *app.add_subcommand(
      "pack-images", "Write image files as one file that is mapped instead of decoded");
  command
      .add_option("files", arguments.files,
                  "Images or patterns, as in data.files: a file's folder is its class")
      ->required();
  command.add_option("--side", arguments.side, "Pixels of a side: the model's image_size")
      ->check(CLI::Range(1, 65536))
      ->required();
  command.add_option("--channels", arguments.channels, "1: gray, 3: colour")
      ->check(CLI::IsMember({1, 3}))
      ->capture_default_str();
  command.add_option("-o,--output", arguments.output, "The packed file")->required();
  command.footer("Example:\n  trireme pack-images 'photos/*/*' --side 64 -o photos.packed");
}

int delivered(int code) {
  try {
    io::require_written(std::cout, "standard output");
    return code;
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << shown_words(error) << "\n";
    return code == 0 ? kFailed : code;
  }
}

void check_paths(CLI::App& app) {
  for (CLI::App* const command : app.get_subcommands({}))
    for (const char* const name : {"job", "run", "model", "--output", "--report", "--trace"})
      if (CLI::Option* const option = command->get_option_no_throw(name))
        option->check([](const std::string& path) { return io::unexpanded(path).value_or(""); });
}

void require_apart(const std::vector<std::pair<std::string, std::string>>& files) {
  if (const auto clash = io::find_clash(files))
    throw CLI::ValidationError(clash->option, clash->reason);
}

void add_step(CLI::App& command, std::optional<std::int64_t>& step) {
  command.add_option("--step", step, "Step of the checkpoint; the newest if not given")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace
}  // namespace trireme::app
