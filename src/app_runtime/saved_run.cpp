// SPDX-License-Identifier: Apache-2.0
#include "saved_run.h"

#include "resume.h"
#include "train_command.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <vector>

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& folder) {
  std::error_code none;
  return fs::exists(checkpoint::manifest_file(folder), none);
}

fs::path checkpoint_of(const fs::path& place, std::optional<std::int64_t> step) {
  if (is_checkpoint(place) && !step) return place;
  const std::vector<checkpoint::Found> all =
      checkpoint::Store(checkpoints_folder(place)).complete();
  if (all.empty())
    throw InputError(concat(place.string(),
                            ": has no checkpoints: name the folder of a run that "
                            "keeps some (checkpoint.every)"));
  if (!step) return all.back().folder;
  std::vector<std::string> steps;
  for (const checkpoint::Found& found : all) {
    if (found.step == *step) return found.folder;
    steps.push_back(concat(found.step));
  }
  throw InputError(concat(place.string(), ": has no checkpoint of step ", *step, ", only of ",
                          join(steps, ", ")));
}

}  // namespace

bool is_saved_run(const fs::path& place) {
  std::error_code none;
  return is_checkpoint(place) || fs::is_directory(checkpoints_folder(place), none);
}

SavedRun find_saved_run(const fs::path& place, std::optional<std::int64_t> step,
                        const model::ModelRegistry& own) {
  const fs::path folder = checkpoint_of(place, step);
  return {.checkpoint = folder,
          .job = config::load_job(checkpoint::job_file(folder), load_options(own))};
}

}  // namespace trireme::app
