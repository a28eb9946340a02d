// SPDX-License-Identifier: Apache-2.0
#include "folder/own_folder.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

const std::string kKey = "report.directory";

[[noreturn]] void fail(const fs::path& folder, const std::string& what) {
  throw InputError(concat(kKey, ": ", folder.string(), " ", what));
}

bool is_there(const fs::path& file) {
  std::error_code none;
  return fs::exists(file, none);
}

bool has_files_of_a_run(const fs::path& name) {
  return is_there(name / "job.yaml") && is_there(name / "metrics.jsonl") &&
         is_there(name / "plan.json");
}

/// Also true if only checkpoints are left: a new run must not take them for its own.
bool holds_earlier_run(const fs::path& name) {
  return has_files_of_a_run(name) ||
         !checkpoint::Store(checkpoint::checkpoints_folder(name)).complete().empty();
}

/// Whether a run ended before it had written its first files: metrics.jsonl comes first, job.yaml
/// second, plan.json third, which makes it an earlier run's folder.
bool has_hardly_begun(const fs::path& name) {
  std::error_code failure;
  return fs::is_empty(name / "metrics.jsonl", failure) && !failure;
}

/// Refuses the working folder and its parents: the next run would rename them.
void require_own(const fs::path& folder) {
  std::error_code ignored;
  const auto working = fs::current_path(ignored);
  const auto from_folder = working.lexically_relative(io::real_name(folder, kKey));
  if (from_folder.empty() || *from_folder.begin() == "..") return;
  fail(folder, concat("holds the working folder ", working.string(),
                      ", which the next run would rename: give the run a folder of its own, such "
                      "as runs/NAME"));
}

/// Refuses a folder in another run's: that one is renamed when its run starts over.
void require_outside(const fs::path& folder) {
  for (fs::path place = io::real_name(folder, kKey).parent_path(); place.has_relative_path();
       place = place.parent_path())
    if (has_files_of_a_run(place))
      fail(folder, concat("lies in the folder of a run, ", place.string(),
                          ", which is renamed when that run starts over: give this run a folder "
                          "next to it"));
}

/// Refuses a folder with files that a run would overwrite and that no run has written.
void require_nothing_to_lose(const fs::path& folder) {
  const fs::path name = io::real_name(folder, kKey);
  if (holds_earlier_run(name)) return;
  const bool is_begun = has_hardly_begun(name);
  for (const char* const file : {"job.yaml", "plan.json", "chain.yaml", "platform.yaml",
                                 "metrics.jsonl", "summary.json", "report.html"}) {
    const bool is_worthless = is_begun && (file == std::string_view("metrics.jsonl") ||
                                           file == std::string_view("job.yaml"));
    if (is_there(name / file) && !is_worthless)
      fail(folder, concat("has a ", file,
                          ", but is no earlier run's folder, and the run would overwrite it: give "
                          "the run another one"));
  }
}

/// Refuses a folder that cannot be written: what counts is the folder or its nearest parent that
/// exists, and for a folder that must be renamed its parent.
void require_writable(const fs::path& folder) {
  fs::path place = io::real_name(folder, kKey);
  if (holds_earlier_run(place)) place = place.parent_path();
  std::error_code none;
  while (!is_there(place) && !fs::is_symlink(place, none) && place.has_relative_path())
    place = place.parent_path();
  if (fs::is_directory(place, none) && ::access(place.c_str(), W_OK | X_OK) == 0) return;
  const std::string reason = !is_there(place)                 ? "is a link to nothing"
                             : !fs::is_directory(place, none) ? "is not a folder"
                                                              : std::strerror(EACCES);
  fail(folder, concat("cannot be made or written (", place.string(), ": ", reason,
                      "): give the run another one"));
}

}  // namespace

void require_takeable(const fs::path& folder) {
  require_own(folder);
  require_outside(folder);
  require_nothing_to_lose(folder);
  require_writable(folder);
}

std::optional<fs::path> prepare_folder(const fs::path& folder) {
  require_takeable(folder);
  const fs::path name = io::real_name(folder, kKey);
  std::optional<fs::path> moved;
  std::error_code failure;
  // Drafts of checkpoints are as large as a model and of no use: not moved along with what is kept.
  checkpoint::Store(checkpoint::checkpoints_folder(name)).sweep();
  if (holds_earlier_run(name)) {
    int number = 1;
    while (is_there(concat(name.string(), ".", number))) ++number;
    moved = concat(name.string(), ".", number);
    fs::rename(name, *moved, failure);
    if (failure)
      fail(folder, concat("holds an earlier run and cannot be renamed to ", moved->string(), ": ",
                          failure.message(), "; rename it, or give this run another folder"));
  }
  fs::create_directories(name, failure);
  if (failure)
    fail(folder, concat("cannot be made: ", failure.message(), "; give the run another one"));
  return moved;
}

}  // namespace trireme::app
