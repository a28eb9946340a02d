// SPDX-License-Identifier: Apache-2.0
#include "run_folder.h"

#include "resume.h"

#include "trireme/checkpoint/store.h"
#include "trireme/comm/host.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/report/chrome_trace.h"
#include "trireme/report/run_page.h"

#include <chrono>
#include <tuple>
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
          .tokens_per_step = parts.job.train.batch * parts.model.tokens_per_example(),
          .unit = tokens ? "tokens" : "examples"};
}

std::vector<Bytes> budgets_of(const runtime::Outcome& outcome) {
  std::vector<Bytes> budgets;
  for (const runtime::RankFigures& rank : outcome.ranks) budgets.push_back(rank.budget);
  return budgets;
}

/// A rank's stages, in every replica those of its counterpart in the plan.
void set_layers(record::RankSummary& line, const plan::Plan& plan) {
  bool first = true;
  for (const plan::StagePlan& stage : plan.stages) {
    if (stage.rank != line.rank % plan::ranks_of(plan)) continue;
    const auto [begin, end] = std::pair(stage.program.first_layer, stage.program.last_layer);
    if (first) std::tie(line.first_layer, line.last_layer) = std::pair(begin, end);
    if (!first) line.further_layers.emplace_back(begin, end);
    first = false;
  }
}

/// What a run that was killed has left, which nobody else removes.
void tidy(const RunFolder::Parts& parts) {
  const std::filesystem::path folder = parts.job.report.directory;
  io::remove_drafts(folder, {"job.yaml", "plan.json", "chain.yaml", "platform.yaml",
                             "metrics.jsonl", "summary.json", "report.html"});
  const checkpoint::Store store(checkpoints_folder(folder));
  store.sweep();
  // Killed behind its last checkpoint: none comes after that, which would.
  if (parts.job.checkpoint.every > 0 && parts.steps_done == parts.job.train.steps)
    store.keep(parts.job.checkpoint.keep, parts.steps_done);
}

}  // namespace

RunFolder::RunFolder(const Parts& parts)
    : job_(parts.job),
      plan_(parts.plan),
      folder_(parts.job.report.directory),
      metrics_(folder_ / "metrics.jsonl", parts.steps_done > 0 ? parts.steps_done + 1 : 0),
      progress_options_(progress_options(parts)),
      out_(parts.out) {
  tidy(parts);
  std::filesystem::remove(folder_ / "summary.json");  // the run has not ended
  io::write_file(folder_ / "job.yaml", config::to_yaml(job_));
  io::write_file(folder_ / "plan.json", plan::to_json(plan_.plan));
  if (plan_.has_forecast()) {
    io::write_file(folder_ / "chain.yaml", chain::to_yaml(plan_.chain));
    io::write_file(folder_ / "platform.yaml", chain::to_yaml(plan_.platform));
  }
  if (job_.report.tensorboard)
    events_.emplace(folder_, record::EventFileStart{
                                 .wall_time = wall_time(),
                                 .host = comm::host_name(),
                                 .first_step = parts.steps_done > 0 ? parts.steps_done + 1 : 0});
  progress_.emplace(out_, progress_options_, steady_time());
}

void RunFolder::started(Seconds since_start) {
  to_first_step_ = since_start;
  progress_.emplace(out_, progress_options_, steady_time());
}

void RunFolder::read_again(const std::set<std::string>& tensors) {
  out_ << "note: the checkpoint's file of frozen weights is damaged: '" << *tensors.begin()
       << "' and " << tensors.size() - 1 << " more were read again from " << job_.weights
       << ", as the run began with them\n";
}

void RunFolder::step(const runtime::StepRecord& record) {
  record::StepMetrics metrics{.step = record.step,
                              .values = {{"train_loss", record.loss},
                                         {"learning_rate", record.learning_rate},
                                         {"step_s", record.time.count()},
                                         {"tokens_per_s", record.tokens_per_s}}};
  if (record.gradient_norm) metrics.values.push_back({"gradient_norm", *record.gradient_norm});
  append(metrics);
  last_ = record;
  step_times_.push_back(record.time);
}

void RunFolder::interval_ended() {
  if (last_) progress_->step(last_->step, last_->loss, steady_time());
}

void RunFolder::validation(std::int64_t step, double loss) {
  append({.step = step, .values = {{"validation_loss", loss}}});
  progress_->validation(step, loss);
}

void RunFolder::saved(const runtime::SavedCheckpoint& checkpoint) {
  progress_->saved(checkpoint.step, checkpoint.size, checkpoint.time, checkpoint.held);
}

void RunFolder::append(const record::StepMetrics& metrics) {
  metrics_.append(metrics);
  if (events_) events_->append(metrics, wall_time());
}

record::Summary RunFolder::summary_of(const runtime::Outcome& outcome,
                                      const std::optional<data::UnigramLoss>& unigram,
                                      Seconds total) const {
  record::Summary summary{.steps = outcome.steps,
                          .resumed_after = progress_options_.first_step,
                          .train_loss = outcome.train_loss,
                          .validation_loss = outcome.validation_loss,
                          .tokens_per_s = outcome.tokens_per_s,
                          .unit = progress_options_.unit,
                          .step = outcome.step,
                          .bubble = outcome.bubble,
                          .total = total,
                          .to_first_step = to_first_step_,
                          .parameters_digest = outcome.parameters_digest,
                          .losses_digest = outcome.losses_digest};
  if (unigram) {
    summary.unigram_entropy = unigram->entropy;
    summary.unigram_cross_entropy = unigram->cross_entropy;
  }
  if (plan_.has_forecast()) summary.predicted_step = plan_.forecast.step;
  for (const runtime::RankFigures& rank : outcome.ranks) {
    record::RankSummary& line =
        summary.ranks.emplace_back(record::RankSummary{.rank = rank.rank,
                                                       .budget = rank.budget,
                                                       .predicted_peak = {},
                                                       .peak = rank.peak,
                                                       .static_bytes = rank.static_bytes,
                                                       .process = rank.process,
                                                       .reserved = {},
                                                       .step = {},
                                                       .predicted_step = {},
                                                       .forward = rank.times.forward,
                                                       .backward = rank.times.backward,
                                                       .recompute = rank.times.recompute,
                                                       .predicted_recompute = {},
                                                       .copy = rank.times.copy,
                                                       .copy_wait = rank.times.copy_wait,
                                                       .wait = rank.times.wait,
                                                       .optimizer_away = rank.optimizer_away,
                                                       .weights_away = rank.weights_away,
                                                       .update = rank.times.step,
                                                       .update_wait = rank.times.update_wait});
    set_layers(line, plan_.plan);
    if (rank.reserves.allocator > Bytes(0)) {
      line.reserved = rank.reserves.allocator;
      line.workspaces = rank.reserves.workspaces;
      line.outside = rank.reserves.others;
      line.gathered = rank.reserves.gathered;
    }
    if (!plan_.has_forecast()) continue;
    const auto stage = static_cast<std::size_t>(rank.rank) % plan_.predicted_peaks.size();
    line.predicted_peak = plan_.predicted_peaks[stage];
    line.predicted_step = plan_.forecast.ranks[stage].end;
    line.predicted_recompute = plan_.forecast.ranks[stage].recompute;
  }
  return summary;
}

void RunFolder::finish(const record::Summary& summary) const {
  record::write(summary, folder_ / "summary.json");
}

void RunFolder::draw(const runtime::Outcome& outcome, const Pictures& pictures) const {
  const simulate::Simulation* const forecast = plan_.has_forecast() ? &plan_.forecast : nullptr;
  if (job_.report.html || !pictures.page.empty()) {
    const std::string page =
        report::run_page({.name = job_.name,
                          .plan = plan_.plan,
                          .chain = plan_.chain,
                          .predicted = forecast,
                          .measured = &outcome.last_step,
                          .budgets = budgets_of(outcome),
                          .facts = {{"steps", std::to_string(outcome.steps)},
                                    {"train loss", concat(outcome.train_loss)},
                                    {"parameters digest", outcome.parameters_digest}},
                          .steps = outcome.steps,
                          .median = outcome.step});
    if (job_.report.html) io::write_file(folder_ / "report.html", page);
    if (!pictures.page.empty()) io::write_file(pictures.page, page);
  }
  if (pictures.trace.empty()) return;
  io::write_file(pictures.trace,
                 forecast != nullptr
                     ? report::chrome_trace(*forecast, outcome.last_step, plan_.chain)
                     : report::chrome_trace(outcome.last_step, plan_.chain));
}

}  // namespace trireme::app
