// SPDX-License-Identifier: Apache-2.0
#include "commands/train_command.h"

#include "commands/measure_again.h"
#include "folder/own_folder.h"
#include "folder/resume.h"
#include "folder/run_folder.h"
#include "job/job.h"
#include "job/job_data.h"
#include "job/same_everywhere.h"

#include "trireme/checkpoint/store.h"
#include "trireme/comm/cause.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/heartbeat.h"
#include "trireme/comm/host.h"
#include "trireme/config/job.h"
#include "trireme/config/weights_notes.h"
#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/data/dataset.h"
#include "trireme/io/file.h"
#include "trireme/prepare/auto_shape.h"
#include "trireme/prepare/does_not_fit.h"
#include "trireme/prepare/job_platform.h"
#include "trireme/prepare/prepared.h"
#include "trireme/ranks/clocks.h"
#include "trireme/ranks/folder_lock.h"
#include "trireme/ranks/host.h"
#include "trireme/ranks/launch.h"
#include "trireme/ranks/meter.h"
#include "trireme/ranks/mpi_launch.h"
#include "trireme/ranks/signals.h"
#include "trireme/runtime/links.h"
#include "trireme/runtime/trainer.h"
#include "trireme/runtime/weights.h"
#include "trireme/tier/memory.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>
#include <variant>

namespace trireme::app {
namespace {

/// What every process reads before there are ranks.
struct Opened {
  explicit Opened(const TrainArguments& arguments)
      : job(load_train_job(arguments.training.job)),
        model(make_job_model(job, arguments.training.job.kinds)),
        dataset(open_data(job, model, arguments.training.job)),
        data(dataset->digest()),
        content(content_digest(model, data)) {
    if (!ranks::is_speaker()) return;
    for (const std::string& file : {arguments.report, arguments.trace}) io::require_writable(file);
  }

  config::JobSpec job;
  model::ChainModel model;
  std::unique_ptr<data::Dataset> dataset;
  std::string data;     ///< digest of all examples
  std::string content;  ///< content_digest()
};

/// Inputs of the run, which all ranks of this process share.
struct RunInputs {
  const TrainArguments& arguments;
  const config::JobSpec& job;
  const model::ChainModel& model;
  const data::Dataset& dataset;
  const std::string& data;  ///< as in Opened, like the next
  const std::string& content;
  const config::LoadOptions& options;  ///< of a job without settings
  const config::JobSpec& as_read;      ///< before its shape was settled
};

/// mpirun gives its ranks a pseudo-terminal, whatever its own output is: plain lines there.
bool is_person_watching(int descriptor) {
  return ranks::launched_ranks() == 1 && isatty(descriptor) != 0;
}

/// Prints what is about to happen, before the first step.
void announce(std::ostream& out, const RunInputs& run, const plan::Plan& plan, bool is_resumed,
              const ranks::RankContext& context) {
  const auto chunks = std::ssize(plan.stages);
  const int ranks = plan::ranks_of(plan);
  out << run.model.name << ": " << count_of(run.model.length(), "layer") << " on "
      << count_of(context.channel.size(), "rank") << " (";
  if (chunks == ranks)
    out << count_of(ranks, "stage");
  else
    out << count_of(chunks, "chunk") << " on " << count_of(ranks, "rank");
  out << " x " << count_of(run.job.pipeline.replicas.value(), "replica") << ", "
      << count_of(context.threads, "thread") << " each (" << context.why_threads << "), "
      << plan.schedule << ", " << count_of(plan.micro_batches, "micro-batch") << " of "
      << run.job.train.micro_batch.value();
  if (plan.group > 1) out << " in groups of " << plan.group;
  out << ", " << plan.solver << ")\n";
  if (!context.device.place().device().is_cpu())
    out << "device: " << context.device.place().describe() << "\n";
  out << run.dataset.describe() << "\n";
  if (run.job.weights.empty() || is_resumed) return;
  out << "starts with the weights in " << visible(run.job.weights);
  if (!run.job.adapters.empty()) out << " and the adapters in " << visible(run.job.adapters);
  out << "\n";
}

runtime::Checkpointing checkpointing_of(const RunInputs& run,
                                        const std::optional<Resumption>& resumed) {
  runtime::Checkpointing checkpoints{
      .folder = checkpoint::checkpoints_folder(run.job.report.directory),
      .every = run.job.checkpoint.every,
      .keep = run.job.checkpoint.keep,
      .in_background = run.job.checkpoint.background,
      .job = config::to_yaml(run.job),
      .data = run.content};
  if (resumed) checkpoints.resume = resumed->checkpoint;
  return checkpoints;
}

std::ostream& words_of(const RunInputs& run) {
  return run.arguments.json ? std::cerr : std::cout;
}

/// Unigram loss of the whole data set, which was not read as a whole before: errors in a part that
/// was never drawn do not spoil the run.
std::optional<data::UnigramLoss> unigram_of(const RunInputs& run) {
  try {
    return run.dataset.unigram_loss();
  } catch (const InputError& error) {
    words_of(run) << "note: no unigram entropy: " << shown_words(error) << "\n";
    return std::nullopt;
  }
}

/// The function that TrainSetup takes: host memory first.
std::function<std::unique_ptr<tier::ValueCopies>(Bytes)> optimizer_copies(
    const prepare::Prepared& prepared, ranks::RankDevice& device) {
  return [&prepared, &device](Bytes room) {
    const tier::OffloadStoreOptions& planned = prepared.stores.optimizer;
    ensure(room <= planned.host + planned.disk, "the optimizer's state has the room of the plan");
    return device.copies_to(prepare::part_of(planned, room))();
  };
}

/// Opens the run's folder; makes it unless the run is resumed.
std::unique_ptr<RunFolder> begun_folder(const RunInputs& run, const RunFolder::Parts& parts) {
  const auto moved = parts.steps_done > 0 ? std::nullopt : prepare_folder(run.job.report.directory);
  if (moved) parts.out << "the earlier run is now in " << visible(moved->string()) << "\n";
  return std::make_unique<RunFolder>(parts);
}

RunFolder::Pictures pictures_of(const RunInputs& run) {
  return {.page = run.arguments.report, .trace = run.arguments.trace};
}

Seconds age_of(const RunInputs& run) {
  return ranks::process_age() - run.arguments.begun;
}

/// Prints how the run went, and writes the results to its folder.
void end_folder(const RunInputs& run, RunFolder& folder, const runtime::FinishedRun& done,
                int threads) {
  folder.close();
  const record::RunSummary summary = folder.completed(done.summary, unigram_of(run), age_of(run));
  words_of(run) << record::closing_text(summary) << note_line(folder.prediction_note(summary))
                << folder.scatter_note(threads)
                << "run folder: " << visible(run.job.report.directory) << "\n";
  if (run.arguments.json) std::cout << record::to_json(summary) << "\n";
  folder.draw(summary, done.recorded, pictures_of(run));
  folder.finish(summary);
}

/// Layers took more memory than when they were measured, so that a plan within the budget exceeded
/// it: exit code 3.
class Outgrown : public comm::EndingError {
 public:
  explicit Outgrown(const std::string& text) : EndingError(comm::Ending::kDoesNotFit, text) {}
};

/// Runs the job; says so where layers whose sizes may vary need more memory than planned.
runtime::FinishedRun run_planned(runtime::Trainer& trainer, RunFolder* folder, const RunInputs& run,
                                 const prepare::Prepared& prepared,
                                 const ranks::RankContext& context) {
  try {
    return trainer.run(folder);
  } catch (const c10::OutOfMemoryError& error) {
    const auto varies = [](const model::LayerRecipe& layer) { return layer.may_vary; };
    if (!prepared.forecast ||
        std::none_of(run.model.layers.begin(), run.model.layers.end(), varies))
      throw;
    const std::vector<Bytes>& peaks = prepared.forecast->peaks;
    const Bytes predicted = peaks[static_cast<std::size_t>(context.channel.rank()) % peaks.size()];
    throw Outgrown(concat(
        error.what_without_backtrace(), "; as the layers were measured, this rank takes ",
        to_text(predicted),
        " at most: some layer's tensors are larger now. Predictions hold for layers whose sizes do "
        "not depend on values (docs/models.md): give such layers a fixed size, or a greater "
        "memory.device_budget"));
  }
}

/// As run_planned(), and records in the folder an error that ends the run.
runtime::FinishedRun run_recorded(runtime::Trainer& trainer, RunFolder* folder,
                                  const RunInputs& run, const prepare::Prepared& prepared,
                                  const ranks::RankContext& context) {
  try {
    return run_planned(trainer, folder, run, prepared, context);
  } catch (const std::exception& error) {
    if (folder != nullptr) folder->end_early(error, trainer.step(), age_of(run), pictures_of(run));
    throw;
  }
}

/// Trains a job of settled shape and writes everything to the run's folder.
void train_settled(const RunInputs& run, const ranks::RankContext& context,
                   prepare::Preparation known, const std::optional<Resumption>& resumed) {
  const bool speaks = context.channel.rank() == 0;
  std::ostream& out = words_of(run);
  const prepare::Prepared prepared =
      prepare::fitting(prepare::prepare(run.job, run.model, context, std::move(known), out),
                       run.job, context.device);
  context.device.connect(runtime::job_links(prepared.plan, run.job.pipeline.replicas.value()));
  context.device.begin_run(prepare::device_budget(run.job, context.channel.rank(), context.device));

  const bool is_terminal = is_person_watching(run.arguments.json ? STDERR_FILENO : STDOUT_FILENO);
  const int everyone_reports =
      comm::broadcast(context.channel, comm::everyone(context.channel),
                      is_terminal ? 1 : run.job.report.log_every, "report interval");
  const runtime::DataSource source = source_of(run.job, run.model, run.dataset);
  const std::unique_ptr<device::Meter> meter = ranks::open_meter(context);
  std::unique_ptr<device::LockedClock> clock;
  if (run.job.energy.set_clocks) clock = ranks::lock_clocks(context, prepared.plan, out);
  if (speaks) announce(out, run, prepared.plan, resumed.has_value(), context);
  runtime::Trainer trainer({.job = run.job,
                            .model = run.model,
                            .plan = prepared.plan,
                            .program = prepared.program,
                            .data = source,
                            .channel = context.channel,
                            .memory = context.device.memory(),
                            .place = context.device.place(),
                            .make_copies = context.device.copies_to(prepared.stores.values),
                            .optimizer_parts = prepared.optimizer_parts,
                            .make_optimizer_copies = optimizer_copies(prepared, context.device),
                            .make_weight_copies = context.device.copies_to(prepared.stores.weights),
                            .reserves = context.device.reserves(),
                            .meter = meter.get(),
                            .checkpoints = checkpointing_of(run, resumed),
                            .threads = context.threads,
                            .report_every = everyone_reports,
                            .owns_process = context.owns_process,
                            .stop_requested = ranks::stop_requested,
                            .save_and_stop_requested = ranks::save_and_stop_requested,
                            .since_start = [&run] { return age_of(run); }});
  // Full and lean tapes have profiles of their own, and `auto` compares them.
  const bool has_both = prepared.plan.lean_tapes && run.job.memory.tapes == "auto";
  // After the checkpoint was loaded: an error in it leaves the folder as it is.
  std::unique_ptr<RunFolder> folder;
  const auto begin = [&] {
    if (speaks)
      folder =
          begun_folder(run, {.job = run.job,
                             .model = run.model,
                             .prepared = prepared,
                             .out = out,
                             .is_terminal = is_terminal,
                             .steps_done = resumed ? resumed->step : 0,
                             .parameters = trainer.parameters(),
                             .measure_again = measure_again(run.arguments.training.job, run.as_read,
                                                            run.job, context.stages, has_both),
                             .on_step = run.arguments.training.on_step,
                             .meter = meter ? meter->describe() : ""});
  };
  comm::run_with_heartbeat(context.channel, begin, "begin of the run's folder");
  const runtime::FinishedRun done = run_recorded(trainer, folder.get(), run, prepared, context);
  const auto end = [&] {
    if (speaks) end_folder(run, *folder, done, context.threads);
  };
  comm::run_with_heartbeat(context.channel, end, "end of the run's folder");
}

/// Collective: checks that the folder is the one that rank 0 has, which all ranks save to. Checked
/// here, not when the first checkpoint is due.
void require_shared_folder(comm::Channel& channel, const std::string& folder,
                           const std::string& mine) {
  const std::string mark =
      comm::broadcast(channel, comm::everyone(channel), mine, "mark in the run's folder");
  const auto look = [&] {
    if (mark.empty() || ranks::sees_mark(folder, mark)) return;
    throw InputError(concat("report.directory: ", folder,
                            " is not that of rank 0: with checkpoint.every it must be on a file "
                            "system that all ranks share"));
  };
  comm::run_with_heartbeat(channel, look, "look for the run's folder");
}

/// The job with a settled shape; when resuming, with the micro-batch size of the checkpoint.
prepare::SettledJob settled_job(const RunInputs& run, const ranks::RankContext& context,
                                const std::optional<Resumption>& resumed) {
  std::ostream& out = words_of(run);
  const int ranks = context.channel.size();
  if (!resumed)
    return prepare::fitting(prepare::with_shape(run.job, run.model, context, ranks, out), run.job,
                            context.device);
  const config::JobSpec job = with_saved_size(run.job, *resumed);
  try {
    return prepare::fitting(prepare::with_shape(job, run.model, context, ranks, out), job,
                            context.device);
  } catch (const InputError& error) {
    if (run.job.train.micro_batch) throw;
    throw InputError(concat(error.what(), " (micro-batches have the size ", resumed->micro_batch,
                            " here, because train.micro_batch is auto and the steps of ",
                            resumed->checkpoint.string(),
                            " had it; to set another, use checkpoint.resume: must)"));
  }
}

void train_rank(const RunInputs& run, const ranks::RankContext& context) {
  require_same_everywhere(context.channel, run.job, run.model, run.data);
  std::ostream& out = words_of(run);
  std::optional<ranks::FolderLock> lock;
  const bool saves = run.job.checkpoint.every > 0;
  std::string mark;
  const auto take_folder = [&] {
    if (context.channel.rank() != 0) return;
    lock.emplace(run.job.report.directory, out);
    if (saves) mark = lock->mark();
  };
  comm::run_with_heartbeat(context.channel, take_folder, "lock of the run's folder");
  if (saves) require_shared_folder(context.channel, run.job.report.directory, mark);
  const std::optional<Resumption> resumed =
      resumption_of(run.job, run.options, run.content, context, out);
  const auto look = [&] {  // finds errors that would otherwise show after minutes of planning
    if (context.channel.rank() != 0) return;
    if (!resumed) require_takeable(run.job.report.directory);
    model::require_trained(run.model, run.job);
    if (run.job.weights.empty() || resumed) return;
    runtime::require_weights(run.model, run.job);
    for (const std::string& note : config::weights_notes(run.job)) out << "note: " << note << "\n";
  };
  comm::run_with_heartbeat(context.channel, look, "look at the run's folder and model");
  const prepare::SettledJob settled = settled_job(run, context, resumed);
  if (resumed && context.channel.rank() == 0) note_replicas(settled.job, *resumed, out);
  ranks::RankContext placed = context;
  placed.stages = ranks::stages_for(settled.job, context.channel.size());
  train_settled({.arguments = run.arguments,
                 .job = settled.job,
                 .model = run.model,
                 .dataset = run.dataset,
                 .data = run.data,
                 .content = run.content,
                 .options = run.options,
                 .as_read = run.job},
                placed, settled.known, resumed);
}

}  // namespace

Trained trained(const TrainArguments& arguments, ranks::LocalErrors errors) {
  const ranks::WatchedSignals signals;
  tier::install_cpu_allocator();
  std::optional<Opened> opened;
  try {
    opened.emplace(arguments);
  } catch (...) {
    if (ranks::launched_ranks() == 1) throw;
    return {.code = ranks::fail_to_launch()};
  }
  const config::LoadOptions options = load_options(arguments.training.job.kinds);
  const RunInputs run{.arguments = arguments,
                      .job = opened->job,
                      .model = opened->model,
                      .dataset = *opened->dataset,
                      .data = opened->data,
                      .content = opened->content,
                      .options = options,
                      .as_read = opened->job};
  const int code = ranks::launch(
      opened->job, [&](const ranks::RankContext& context) { train_rank(run, context); }, errors);
  return {.code = code, .folder = opened->job.report.directory};
}

int train(TrainArguments arguments, const model::ModelRegistry& own) {
  arguments.training.job.kinds = own;
  try {
    return trained(arguments, ranks::LocalErrors::kPrinted).code;
  } catch (...) {
    return ranks::exit_code_of_current_exception(ranks::is_speaker(), "");
  }
}

}  // namespace trireme::app
