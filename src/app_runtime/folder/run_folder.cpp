// SPDX-License-Identifier: Apache-2.0
#include "folder/run_folder.h"

#include "folder/early_end.h"
#include "folder/resume.h"

#include "trireme/checkpoint/store.h"
#include "trireme/comm/host.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/report/chrome_trace.h"
#include "trireme/report/run_page.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::app {
namespace {

Seconds wall_time() {
  return to_seconds(std::chrono::system_clock::now().time_since_epoch());
}

Seconds steady_time() {
  return to_seconds(std::chrono::steady_clock::now().time_since_epoch());
}

record::ProgressOptions progress_options(const RunFolder::Parts& parts) {
  const bool tokens = parts.model.input == model::InputKind::kTokens;
  return {.is_terminal = parts.is_terminal,
          .steps = parts.job.train.steps,
          .first_step = parts.steps_done,
          .log_every = parts.job.report.log_every,
          .unit = tokens ? "tokens" : "examples"};
}

std::vector<Bytes> budgets_of(const record::RunSummary& summary) {
  std::vector<Bytes> budgets;
  for (const record::RankSummary& rank : summary.ranks) budgets.push_back(rank.budget);
  return budgets;
}

std::vector<record::PlannedRank> planned_ranks(const prepare::Prepared& prepared) {
  std::vector<record::PlannedRank> planned(static_cast<std::size_t>(plan::ranks_of(prepared.plan)));
  for (const plan::StagePlan& stage : prepared.plan.stages)
    planned[static_cast<std::size_t>(stage.rank)].layers.emplace_back(stage.program.first_layer,
                                                                      stage.program.last_layer);
  if (!prepared.forecast) return planned;
  for (std::size_t rank = 0; rank < planned.size(); ++rank) {
    const simulate::RankResult& simulated = prepared.forecast->simulation.ranks[rank];
    planned[rank].predicted = {.peak = prepared.forecast->peaks[rank],
                               .step = simulated.end,
                               .recompute = simulated.recompute};
  }
  return planned;
}

/// Removes what a run that was killed has left.
void tidy(const RunFolder::Parts& parts) {
  const std::filesystem::path folder = parts.job.report.directory;
  io::remove_drafts(folder, {"job.yaml", "plan.json", "chain.yaml", "graph.yaml", "platform.yaml",
                             "metrics.jsonl", "summary.json", "report.html"});
  const checkpoint::Store store(checkpoint::checkpoints_folder(folder));
  store.sweep();
  // If it was killed after its last checkpoint, no later checkpoint removes the surplus ones.
  if (parts.job.checkpoint.every > 0 && parts.steps_done == parts.job.train.steps)
    store.keep(parts.job.checkpoint.keep, parts.steps_done);
}

/// What the same command will do after a run that ended early, as a line.
std::string how_it_goes_on(const config::JobSpec& job) {
  const auto kept =
      checkpoint::Store(checkpoint::checkpoints_folder(job.report.directory)).complete();
  if (kept.empty())
    return "no checkpoint was kept: the same command starts over (checkpoint.every: N keeps one "
           "after every N steps)\n";
  if (job.checkpoint.resume == "never")
    return concat("the newest checkpoint is of step ", kept.back().step,
                  "; checkpoint.resume is never, so the same command starts over\n");
  return concat("the same command resumes from the checkpoint of step ", kept.back().step, "\n");
}

}  // namespace

std::string note_line(const std::string& note) {
  return note.empty() ? "" : concat("note: ", note, "\n");
}

RunFolder::RunFolder(const Parts& parts)
    : job_(parts.job),
      prepared_(parts.prepared),
      folder_(parts.job.report.directory),
      metrics_(folder_ / "metrics.jsonl", parts.steps_done > 0 ? parts.steps_done + 1 : 0),
      progress_options_(progress_options(parts)),
      out_(parts.out),
      parameters_(parts.parameters),
      measure_again_(parts.measure_again),
      meter_(parts.meter),
      on_step_(parts.on_step) {
  tidy(parts);
  for (const char* const file : {"summary.json", "report.html"})  // the run has not ended
    io::remove_own_file(folder_ / file);
  io::write_own_file(folder_ / "job.yaml", config::to_yaml(job_));
  write_plan();
  if (job_.report.tensorboard)
    events_.emplace(folder_, record::EventFileStart{
                                 .wall_time = wall_time(),
                                 .host = comm::host_name(),
                                 .first_step = parts.steps_done > 0 ? parts.steps_done + 1 : 0});
  progress_.emplace(out_, progress_options_, steady_time());
}

void RunFolder::write_plan() const {
  const auto write = [this](const char* file, const std::string& text) {
    io::write_own_file(folder_ / file, text);
  };
  if (const auto& of_graph = prepared_.graph) {
    write("plan.json", graph::to_json(of_graph->plan, of_graph->graph));
    write("graph.yaml", graph::to_yaml(of_graph->graph));
  } else {
    write("plan.json", plan::to_json(prepared_.plan));
    if (prepared_.forecast) write("chain.yaml", chain::to_yaml(prepared_.forecast->chain));
  }
  if (prepared_.forecast) write("platform.yaml", chain::to_yaml(prepared_.forecast->platform));
}

void RunFolder::started(Seconds since_start) {
  to_first_step_ = since_start;
  progress_.emplace(out_, progress_options_, steady_time());
}

void RunFolder::read_again(const std::set<std::string>& tensors) {
  out_ << "note: the checkpoint's file of frozen weights is damaged: '" << visible(*tensors.begin())
       << "' and " << tensors.size() - 1 << " more were read again from " << visible(job_.weights)
       << ", as the run began with them\n";
}

void RunFolder::step(const record::StepMetrics& metrics) {
  append(record::line_of(metrics));
  tokens_ += metrics.tokens;
  last_ = metrics;
  step_times_.push_back(metrics.time);
  if (on_step_) on_step_(metrics);
}

void RunFolder::interval_ended() {
  if (last_) progress_->step(last_->step, last_->loss, tokens_, steady_time());
}

void RunFolder::validation(std::int64_t step, double loss) {
  append(record::validation_line(step, loss));
  progress_->validation(step, loss);
}

void RunFolder::saving() {
  metrics_.flush();
  if (events_) events_->flush();
}

void RunFolder::saved(const runtime::SavedCheckpoint& checkpoint) {
  progress_->saved(checkpoint.step, checkpoint.size, checkpoint.time, checkpoint.held);
}

void RunFolder::append(const record::MetricsLine& line) {
  metrics_.append(line);
  if (events_) events_->append(line, wall_time());
  if (is_told_ || metrics_.is_there()) return;
  is_told_ = true;
  progress_->close();
  out_ << "note: " << visible((folder_ / "metrics.jsonl").string())
       << " no longer exists: it, or the run's folder, was removed or renamed while the run "
          "trains; what is measured from here on is lost, and no checkpoint can be saved without "
          "the folder"
       << std::endl;
}

record::RunSummary RunFolder::completed(record::RunSummary summary,
                                        const std::optional<data::UnigramLoss>& unigram,
                                        Seconds total) const {
  add_known(summary, total);
  if (unigram) {
    summary.unigram_entropy = unigram->entropy;
    summary.unigram_cross_entropy = unigram->cross_entropy;
  }
  return summary;
}

void RunFolder::add_known(record::RunSummary& summary, Seconds total) const {
  summary.resumed_after = progress_options_.first_step;
  summary.unit = progress_options_.unit;
  summary.total = total;
  summary.to_first_step = to_first_step_;
  summary.parameters = parameters_;
  summary.planned = planned_ranks(prepared_);
  summary.examples = job_.train.batch;
  summary.meter = meter_;
  if (prepared_.forecast) {
    summary.has_earlier_costs = prepared_.forecast->has_earlier_costs;
    summary.predicted_step = prepared_.forecast->simulation.step;
    if (const Joules energy = prepared_.forecast->simulation.energy.all(); energy > Joules(0))
      summary.predicted_energy = energy * prepared_.plan.replicas;
  }
}

std::string RunFolder::prediction_note(const record::RunSummary& summary) const {
  return record::prediction_note(summary, measure_again_);
}

void RunFolder::finish(const record::RunSummary& summary) const {
  record::write(summary, folder_ / "summary.json");
}

void RunFolder::end_early(const std::exception& error, std::int64_t step, Seconds total,
                          const Pictures& pictures) noexcept {
  try {
    close();
    if (!metrics_.is_there()) return;  // the folder is gone: nothing can be written
    record::RunSummary summary;
    add_known(summary, total);
    summary.end =
        early_end(error, {.step = step, .told = told(), .steps = progress_options_.steps});
    add_told(summary);
    draw_run(summary, nullptr, pictures);
    finish(summary);
    out_ << note_line(prediction_note(summary)) << how_it_goes_on(job_)
         << "run folder: " << visible(folder_.string()) << std::endl;
  } catch (const std::exception& failure) {
    out_ << "note: no page on this run, or no summary: " << shown_words(failure) << std::endl;
  }
}

void RunFolder::add_told(record::RunSummary& summary) const {
  const report::TrainingCurves curves = this->curves();
  const std::vector<report::CurvePoint>& losses = curves.train_loss;
  const std::size_t count =
      std::min(losses.size(), static_cast<std::size_t>(job_.report.log_every));
  double sum = 0;
  for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i].value;
  summary.steps = told();
  summary.train_loss_steps = static_cast<std::int64_t>(count);
  summary.train_loss = count > 0 ? sum / static_cast<double>(count) : 0;
  if (!curves.validation_loss.empty())
    summary.validation_loss = curves.validation_loss.back().value;
  if (step_times_.empty()) return;
  std::vector<Seconds> times = step_times_;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  summary.step = *middle;
  summary.tokens_per_s =
      static_cast<double>(tokens_) / static_cast<double>(times.size()) / middle->count();
}

report::TrainingCurves RunFolder::curves() const {
  report::TrainingCurves curves;
  curves.unit = progress_options_.unit;
  curves.resumed_after = progress_options_.first_step;
  const std::map<std::string_view, std::vector<report::CurvePoint>*> by_name{
      {record::kTrainLoss, &curves.train_loss},
      {record::kValidationLoss, &curves.validation_loss},
      {record::kThroughput, &curves.throughput},
      {record::kGradientNorm, &curves.gradient_norm},
      {record::kLearningRate, &curves.learning_rate}};
  for (const record::MetricsLine& line : record::read_metrics(metrics_.file())) {
    for (const record::Scalar& scalar : line.values) {
      if (const auto found = by_name.find(scalar.name); found != by_name.end())
        found->second->push_back({line.step, scalar.value});
    }
  }
  return curves;
}

void RunFolder::draw(const record::RunSummary& summary, const runtime::RecordedStep& recorded,
                     const Pictures& pictures) const {
  draw_run(summary, &recorded, pictures);
}

void RunFolder::draw_run(const record::RunSummary& summary, const runtime::RecordedStep* recorded,
                         const Pictures& pictures) const {
  const bool has_forecast = prepared_.forecast.has_value();
  const simulate::Simulation* const forecast =
      has_forecast ? &prepared_.forecast->simulation : nullptr;
  const chain::Chain unknown;
  const chain::Chain& chain = has_forecast ? prepared_.forecast->chain : unknown;
  if (job_.report.html || !pictures.page.empty()) {
    std::vector<report::Fact> facts;
    for (auto& [what, value] : record::facts_of(summary)) facts.push_back({what, value});
    report::RunPage run{.name = job_.name,
                        .plan = prepared_.plan,
                        .chain = chain,
                        .predicted = forecast,
                        .budgets = budgets_of(summary),
                        .facts = facts,
                        .training = curves(),
                        .steps = summary.steps,
                        .median = summary.step,
                        .early_end = summary.end.words,
                        .note = prediction_note(summary)};
    if (recorded != nullptr) {
      run.measured = &recorded->step;
      run.measured_number = recorded->number;
    }
    const std::string page = report::run_page(run);
    if (job_.report.html) io::write_own_file(folder_ / "report.html", page);
    if (!pictures.page.empty()) io::write_file(pictures.page, page);
  }
  if (pictures.trace.empty() || recorded == nullptr) return;
  const std::vector<int> chunks = plan::chunks_of_layers(prepared_.plan);
  io::write_file(pictures.trace,
                 forecast != nullptr
                     ? report::chrome_trace(*forecast, recorded->step, chain, chunks)
                     : report::chrome_trace(recorded->step, chain, chunks));
}

}  // namespace trireme::app
