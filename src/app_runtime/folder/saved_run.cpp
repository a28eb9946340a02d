// SPDX-License-Identifier: Apache-2.0
#include "folder/saved_run.h"

#include "folder/resume.h"
#include "job/job.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/record/summary.h"

#include <vector>

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& folder) {
  std::error_code none;
  return fs::exists(checkpoint::manifest_file(folder), none);
}

/// Throws InputError where the run has trained beyond the newest one.
void require_last(const fs::path& place, const checkpoint::Found& newest) {
  const std::int64_t end = record::completed_steps(place / "summary.json").value_or(0);
  if (end <= newest.step) return;
  throw InputError(concat(place.string(), ": the run has ended after step ", end,
                          ", but its newest checkpoint is of step ", newest.step,
                          ": take that with --step ", newest.step,
                          ", or train again with checkpoint.every, which saves at the end"));
}

checkpoint::Found checkpoint_in(const fs::path& place, std::optional<std::int64_t> step) {
  const std::vector<checkpoint::Found> all =
      checkpoint::Store(checkpoint::checkpoints_folder(place)).complete();
  if (all.empty())
    throw InputError(concat(place.string(),
                            ": has no checkpoints: name the folder of a run that "
                            "keeps some (checkpoint.every)"));
  if (!step) {
    require_last(place, all.back());
    return all.back();
  }
  std::vector<std::string> steps;
  for (const checkpoint::Found& found : all) {
    if (found.step == *step) return found;
    steps.push_back(concat(found.step));
  }
  throw InputError(concat(place.string(), ": has no checkpoint of step ", *step, ", only of ",
                          join(steps, ", ")));
}

config::JobSpec job_of(const fs::path& folder, const checkpoint::Manifest& manifest,
                       const model::ModelRegistry& own) {
  return config::read_job(checkpoint::load_job(folder, manifest), load_options(own));
}

}  // namespace

bool is_saved_run(const fs::path& place) {
  std::error_code none;
  return is_checkpoint(place) || fs::is_directory(checkpoint::checkpoints_folder(place), none);
}

SavedRun find_saved_run(const fs::path& place, std::optional<std::int64_t> step,
                        const model::ModelRegistry& own) {
  if (is_checkpoint(place) && !step)
    return {.checkpoint = place, .job = job_of(place, checkpoint::load_manifest(place), own)};
  const checkpoint::Found found = checkpoint_in(place, step);
  return {.checkpoint = found.folder,
          .job = job_of(found.folder, checkpoint::load_manifest(found), own)};
}

}  // namespace trireme::app
