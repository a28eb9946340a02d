// SPDX-License-Identifier: Apache-2.0
#include "trireme/app_runtime/in_process.h"

#include "commands/check_command.h"
#include "commands/train_command.h"
#include "folder/saved_run.h"

#include "trireme/io/terminal.h"
#include "trireme/ranks/host.h"
#include "trireme/runtime/weights.h"

#include <iostream>
#include <sstream>

namespace trireme::app {

Trained train(const Training& training) {
  const io::VisibleOutput out(std::cout), errors(std::cerr);
  return trained({.training = training, .begun = ranks::process_age()},
                 ranks::LocalErrors::kThrown);
}

std::string plan(const Planning& planning) {
  std::ostringstream notes;
  return forecast_text({.planning = planning}, notes);
}

void export_weights(const std::string& run, const std::string& file,
                    const model::ModelRegistry& kinds) {
  const SavedRun saved = find_saved_run(run, {}, kinds);
  runtime::export_weights(saved.checkpoint, saved.job.model, at::kFloat, file);
}

}  // namespace trireme::app
