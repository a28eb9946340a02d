// SPDX-License-Identifier: Apache-2.0
#include "commands/profile_command.h"

#include "job/job.h"

#include "trireme/config/job.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/io/json.h"
#include "trireme/prepare/measured_chain.h"
#include "trireme/profile/measure_graph.h"
#include "trireme/profile/stored.h"
#include "trireme/profile/text.h"
#include "trireme/ranks/launch.h"
#include "trireme/ranks/mpi_launch.h"
#include "trireme/ranks/signals.h"

#include <iostream>
#include <memory>

namespace trireme::app {
namespace {

config::JobSpec load(const ProfileArguments& arguments, const model::ModelRegistry& own);
/// On one rank, with the threads that a rank of the job's run would have.
void profile_rank(const ProfileArguments& arguments, const config::JobSpec& job,
                  const model::ChainModel& model, const ranks::RankContext& context);
void print(const ProfileArguments& arguments, const profile::Stored& stored, int threads,
           const std::string& energy);
/// What joules of passes are: counted by a meter, or those of a model.
std::string energy_words(const profile::Stored& stored, const device::Meter* meter);
/// The same for a model that is a graph: its nodes, to the output file or the screen.
void profile_graph(const ProfileArguments& arguments, const config::JobSpec& job,
                   const model::ChainModel& model, const ranks::RankContext& context);

}  // namespace

int profile(const ProfileArguments& arguments, const model::ModelRegistry& own) {
  const ranks::WatchedSignals signals;
  try {
    io::require_writable(arguments.output);
    const config::JobSpec job = load(arguments, own);
    const model::ChainModel model = make_job_model(job, own);
    return ranks::launch(job, [&](const ranks::RankContext& context) {
      if (context.channel.rank() != 0) return;
      model::require_trained(model, job);
      if (model.is_graph()) return profile_graph(arguments, job, model, context);
      profile_rank(arguments, job, model, context);
    });
  } catch (...) {
    return ranks::exit_code_of_current_exception(ranks::is_speaker(), "");
  }
}

namespace {

config::JobSpec load(const ProfileArguments& arguments, const model::ModelRegistry& own) {
  config::JobSpec job =
      load_train_job({.file = arguments.job_file, .settings = arguments.settings, .kinds = own});
  if (ranks::launched_ranks() > 1) {
    throw InputError(concat("profile measures on one process, but mpirun started ",
                            ranks::launched_ranks(), ": start it without mpirun"));
  }
  if (!job.train.micro_batch)
    job.fail("train.micro_batch",
             "is auto, but costs are measured at one size: say --set train.micro_batch=4");
  job.pipeline.transport = "local";
  return job;
}

void profile_rank(const ProfileArguments& arguments, const config::JobSpec& job,
                  const model::ChainModel& model, const ranks::RankContext& context) {
  const int threads = context.threads;
  profile::MeasureOptions options = prepare::measure_options(context, std::cerr);
  const std::unique_ptr<device::Meter> meter = context.device.open_meter();
  options.meter = meter.get();
  options.progress = [&](int number, const chain::LayerCost& cost, bool measured) {
    if (!measured) return;
    std::cerr << "measured layer " << number << " of " << model.length() << ", " << cost.name
              << "\n";
  };
  const profile::Stored stored = profile::load_or_measure(
      model, job, options, prepare::profiles_folder(job),
      arguments.fresh ? profile::Reuse::kForbidden : profile::Reuse::kAllowed);
  if (!stored.refused.empty()) std::cerr << "note: " << visible(stored.refused) << "\n";
  if (!stored.problem.empty())
    std::cerr << "note: measured, but not stored for the next time: " << visible(stored.problem)
              << "\n";
  if (!arguments.output.empty()) io::write_file(arguments.output, chain::to_yaml(stored.chain));
  print(arguments, stored, threads, energy_words(stored, meter.get()));
}

void profile_graph(const ProfileArguments& arguments, const config::JobSpec& job,
                   const model::ChainModel& model, const ranks::RankContext& context) {
  if (arguments.json)
    throw InputError("--json: a model that is a graph is written as YAML; use -o graph.yaml");
  const profile::GraphCosts costs = profile::measure_graph(
      model, job, prepare::measure_options(context, std::cerr), [&](int number) {
        std::cerr << "measured operator " << number << " of " << model.length() << ", "
                  << model.layers[static_cast<std::size_t>(number) - 1].name << "\n";
      });
  std::cout << model.name << ", one micro-batch, " << costs.graph.size() << " nodes; besides these "
            << to_text(costs.fixed) << " of weights, gradients and optimizer state, "
            << to_text(costs.kept) << " saved by operators for their backward\n";
  const std::string text = graph::to_yaml(costs.graph);
  if (arguments.output.empty()) {
    std::cout << text;
    return;
  }
  io::write_file(arguments.output, text);
  std::cout << "graph: " << visible(arguments.output) << "\n";
}

std::string energy_words(const profile::Stored& stored, const device::Meter* meter) {
  if (!profile::has_joules(stored.chain)) return "model";
  return stored.was_there || meter == nullptr ? "measured earlier" : meter->describe();
}

void print(const ProfileArguments& arguments, const profile::Stored& stored, int threads,
           const std::string& energy) {
  if (arguments.json) {
    std::cout << io::one_line({{"format", "trireme-profile/1"},
                               {"file", stored.file.string()},
                               {"measured", !stored.was_there},
                               {"threads", threads},
                               {"energy", energy},
                               {"digest", chain::digest(stored.chain)},
                               {"chain", profile::to_json(stored.chain)}})
              << "\n";
    return;
  }
  std::cout << stored.chain.name << ", one micro-batch, " << count_of(threads, "thread")
            << ", medians of warm runs:\n"
            << profile::to_table(stored.chain) << "energy: " << energy
            << (profile::has_joules(stored.chain)
                    ? ", all programs of the device included\n"
                    : " (no meter can be read: watts that a job or platform gives, "
                      "docs/energy.md)\n");
  if (stored.problem.empty())
    std::cout << (stored.was_there ? "measured earlier (--fresh measures again): " : "stored in ")
              << visible(stored.file.string()) << "\n";
  if (!arguments.output.empty()) std::cout << "chain: " << visible(arguments.output) << "\n";
}

}  // namespace
}  // namespace trireme::app
