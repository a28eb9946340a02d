// Training and planning inside of a program of others (Python): its models, its data, and errors
// that are thrown. The commands of run.h are these, with errors printed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/data/own_examples.h"
#include "trireme/model/chain.h"
#include "trireme/record/metrics.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trireme::app {

/// A job as a calling program gives it.
struct GivenJob {
  std::string file;                        ///< read, unless there is a text
  std::optional<std::string> text = {};    ///< YAML or JSON of values; errors call it `file`
  std::vector<std::string> settings = {};  ///< "section.key=value"
  model::ModelRegistry kinds = {};         ///< of models, besides the built-in ones
  /// The kind of the model that the program hands over, beside which the job must have none; empty:
  /// the job has one.
  std::string model = {};
  /// The examples of a job whose data.kind is own, or not said; null: there are none.
  std::function<std::unique_ptr<data::OwnExamples>()> examples = {};
  /// Those for validation; null: a part of `examples`, which must be there.
  std::function<std::unique_ptr<data::OwnExamples>()> validation = {};
};

struct Training {
  GivenJob job;
  /// Called on rank 0 of the job for every step, in order, in bursts of report.log_every; an error
  /// that it throws ends the run. Null: no callback.
  std::function<void(const record::StepMetrics&)> on_step = {};
};

struct Trained {
  int code = 0;        ///< 0, or the exit code of an error that was printed (ranks of mpirun)
  std::string folder;  ///< of the run, if the code is 0
};

/// As `trireme train`. Throws InputError, prepare::DoesNotFit, Interrupted, c10::OutOfMemoryError
/// and other errors, with a message for people, where the job's ranks are threads of this process;
/// an error of a rank under mpirun ends the processes of all ranks.
Trained train(const Training& training);

struct Planning {
  GivenJob job;
  int ranks = 0;                ///< of the run; 0: the job's stages x replicas
  std::string plan_file, page;  ///< files to write: the plan (JSON), a page on it (HTML)
};

/// As `trireme plan`; prints nothing. Returns the plan as text. Throws as train() does.
std::string plan(const Planning& planning);

/// Writes the weights of the newest checkpoint of a run's folder into a new safetensors file: in
/// float32, named as `trireme export` names them. Throws as train() does.
void export_weights(const std::string& run, const std::string& file,
                    const model::ModelRegistry& kinds);

}  // namespace trireme::app
