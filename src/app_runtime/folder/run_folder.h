// Observer that writes the files of a run's folder, on rank 0 only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/data/dataset.h"
#include "trireme/model/chain.h"
#include "trireme/prepare/prepared.h"
#include "trireme/record/events.h"
#include "trireme/record/metrics.h"
#include "trireme/record/progress.h"
#include "trireme/record/scatter.h"
#include "trireme/record/summary.h"
#include "trireme/report/run_page.h"
#include "trireme/runtime/trainer.h"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace trireme::app {

/// "note: NOTE" and a newline; empty for an empty note.
std::string note_line(const std::string& note);

/// Shows progress on `out` and writes job.yaml, plan.json (with costs also chain.yaml, or
/// graph.yaml of a model that is a graph, and platform.yaml), metrics.jsonl, TensorBoard events,
/// report.html and summary.json.
class RunFolder final : public runtime::Observer {
 public:
  struct Parts {
    const config::JobSpec& job;
    const model::ChainModel& model;
    const prepare::Prepared& prepared;
    std::ostream& out;
    bool is_terminal = false;
    std::int64_t steps_done = 0;  ///< > 0: resumes the folder's run after these
    record::ParameterCount parameters = {};
    std::string measure_again = {};  ///< command that does so, for prediction_note()
    std::function<void(const record::StepMetrics&)> on_step = {};  ///< as in Training
    std::string meter = {};                                        ///< as in record::RunSummary
  };
  explicit RunFolder(const Parts& parts);
  ~RunFolder() override { close(); }

  void started(Seconds since_start) override;
  void read_again(const std::set<std::string>& tensors) override;
  void step(const record::StepMetrics& metrics) override;
  void interval_ended() override;
  void validation(std::int64_t step, double loss) override;
  void saving() override;
  void saved(const runtime::SavedCheckpoint& checkpoint) override;

  /// Ends the progress line; called however the run ends.
  void close() { progress_->close(); }
  /// Note on the scatter of step times since this start, with ranks of `threads` threads.
  std::string scatter_note(int threads) const { return record::scatter_note(step_times_, threads); }
  /// Note that predictions were far off, and what to do: record::prediction_note().
  std::string prediction_note(const record::RunSummary& summary) const;
  /// What the trainer says of the finished run, with what the folder knows besides.
  record::RunSummary completed(record::RunSummary summary,
                               const std::optional<data::UnigramLoss>& unigram,
                               Seconds total) const;

  /// Files for the run's page and the recorded step's trace, in addition to report.html; empty:
  /// none.
  struct Pictures {
    std::string page, trace;
  };
  void draw(const record::RunSummary& summary, const runtime::RecordedStep& recorded,
            const Pictures& pictures) const;

  /// Writes summary.json: the run has ended. Called last: if anything fails before, the same
  /// command repeats it without training again.
  void finish(const record::RunSummary& summary) const;

  /// Writes the page and the summary of a run that `error` has ended in this step, from what rank 0
  /// knows, and marks them so. Failures to write are only printed, because the run's own error
  /// counts.
  void end_early(const std::exception& error, std::int64_t step, Seconds total,
                 const Pictures& pictures) noexcept;

 private:
  /// The plan, and what it was made for.
  void write_plan() const;
  void append(const record::MetricsLine& line);
  /// The last step whose loss is known.
  std::int64_t told() const { return last_ ? last_->step : progress_options_.first_step; }
  /// Adds what is known of a run however it ends.
  void add_known(record::RunSummary& summary, Seconds total) const;
  /// Adds figures of the steps whose losses are known, for a run that ends early.
  void add_told(record::RunSummary& summary) const;
  /// As draw(); null: the run ended before a recorded step was chosen.
  void draw_run(const record::RunSummary& summary, const runtime::RecordedStep* recorded,
                const Pictures& pictures) const;
  /// Curves of the whole run, from metrics.jsonl.
  report::TrainingCurves curves() const;

  const config::JobSpec& job_;
  const prepare::Prepared& prepared_;
  std::filesystem::path folder_;
  record::MetricsFile metrics_;
  std::optional<record::EventFile> events_;
  std::optional<record::Progress> progress_;
  std::optional<record::StepMetrics> last_;
  std::vector<Seconds> step_times_;
  record::ProgressOptions progress_options_;
  std::ostream& out_;
  std::int64_t tokens_ = 0;  ///< tokens of the steps since the start
  Seconds to_first_step_{0};
  bool is_told_ = false;  ///< whether a missing folder was reported
  const record::ParameterCount parameters_;
  const std::string measure_again_, meter_;
  const std::function<void(const record::StepMetrics&)> on_step_;
};

}  // namespace trireme::app
