// SPDX-License-Identifier: Apache-2.0
#include "own_folder.h"

#include "resume.h"

#include "trireme/checkpoint/store.h"
#include "trireme/comm/host.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/pieces.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

/// Time within which a network file system shows what another machine has written, and the interval
/// at which it is polled.
constexpr std::chrono::seconds kAppears{5};
constexpr std::chrono::milliseconds kLook{100};
/// How often a folder that has disappeared again is made anew.
constexpr int kTimes = 100;

/// Locks of this process.
struct Living {
  std::mutex mutex;
  std::vector<FolderLock*> locks;
} living;  // NOLINT: for a process that ends at once

[[noreturn]] void fail(const fs::path& folder, const std::string& what) {
  throw InputError(concat("report.directory: ", folder.string(), " ", what));
}

bool is_there(const fs::path& file) {
  std::error_code none;
  return fs::exists(file, none);
}

/// Its path with all links resolved.
fs::path real_name(const fs::path& folder) {
  std::error_code failure;
  fs::path real = fs::weakly_canonical(plain_name(folder), failure);
  return failure ? plain_name(folder) : real;
}

/// Possible lock files, in the order in which they are tried: one next to the folder, because a new
/// run renames an earlier one in its place; where that cannot be written, because all around the
/// folder belongs to others, one in it, and then no run can rename the folder.
std::array<fs::path, 2> lock_files(const fs::path& folder) {
  const fs::path run = real_name(folder);
  return {run.parent_path() / concat(".", run.filename().string(), ".lock"), run / ".lock"};
}

/// Whether the open file still has that name.
bool is_at(int descriptor, const fs::path& file) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(file.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// The folder and its parents that do not exist, the innermost first.
std::vector<fs::path> missing_folders(fs::path folder) {
  std::vector<fs::path> missing;
  for (; folder.has_relative_path() && !is_there(folder); folder = folder.parent_path())
    missing.push_back(folder);
  return missing;
}

void remove_empty(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders)
    if (::rmdir(folder.c_str()) != 0) return;
}

/// Whether a file begins with the mark.
bool has_mark(const fs::path& file, const std::string& mark) {
  try {
    std::string text(mark.size(), ' ');
    io::InputFile(file).read(std::as_writable_bytes(std::span(text)), 0);
    return text == mark;
  } catch (const InputError&) {  // not there, or shorter
    return false;
  }
}

bool has_files_of_a_run(const fs::path& name) {
  return is_there(name / "job.yaml") && is_there(name / "metrics.jsonl") &&
         is_there(name / "plan.json");
}

/// Also true if only checkpoints are left: a new run must not take them for its own.
bool holds_earlier_run(const fs::path& name) {
  return has_files_of_a_run(name) ||
         !checkpoint::Store(checkpoints_folder(name)).complete().empty();
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
  const auto from_folder = working.lexically_relative(real_name(folder));
  if (from_folder.empty() || *from_folder.begin() == "..") return;
  fail(folder, concat("holds the working folder ", working.string(),
                      ", which the next run would rename: give the run a folder of its own, such "
                      "as runs/NAME"));
}

/// Refuses a folder in another run's: that one is renamed when its run starts over.
void require_outside(const fs::path& folder) {
  for (fs::path place = real_name(folder).parent_path(); place.has_relative_path();
       place = place.parent_path())
    if (has_files_of_a_run(place))
      fail(folder, concat("lies in the folder of a run, ", place.string(),
                          ", which is renamed when that run starts over: give this run a folder "
                          "next to it"));
}

/// Refuses a folder with files that a run would overwrite and that no run has written.
void require_nothing_to_lose(const fs::path& folder) {
  const fs::path name = real_name(folder);
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
  fs::path place = real_name(folder);
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

fs::path plain_name(const fs::path& folder) {
  std::error_code failure;
  fs::path name = fs::absolute(folder, failure);
  if (failure)
    fail(folder, concat("is relative to a working folder that is gone (", failure.message(),
                        "): start the run in another one"));
  name = name.lexically_normal();
  return name.filename().empty() ? name.parent_path() : name;
}

FolderLock::FolderLock(const fs::path& folder, std::ostream& out) {
  int reason = 0;
  for (const fs::path& file : lock_files(folder)) {
    made_ = missing_folders(file.parent_path());
    if (take(file)) {
      const std::lock_guard lock(living.mutex);
      living.locks.push_back(this);
      return;
    }
    reason = errno;
    remove_empty(made_);
    if (reason == EWOULDBLOCK)
      throw InputError(concat("report.directory: another run is in ", folder.string(),
                              ": wait for its end, or give this one a folder of its own"));
  }
  out << "note: " << visible(folder.string()) << " cannot be locked (" << std::strerror(reason)
      << "): let no other run have it meanwhile\n";
}

bool FolderLock::take(const fs::path& file) {
  for (int time = 0;; ++time) {
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    descriptor_ =
        ::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == ENOENT && time < kTimes) continue;  // as below, for the folder
    if (descriptor_ < 0) return false;
    const bool is_locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    if (is_locked && is_at(descriptor_, file)) {
      file_ = file;
      return true;
    }
    const int reason = errno;
    ::close(std::exchange(descriptor_, -1));
    errno = reason;
    // The run that held it has removed it in the meantime: another one may have made it anew.
    if (!is_locked) return false;
  }
}

FolderLock::~FolderLock() {
  const std::lock_guard lock(living.mutex);
  std::erase(living.locks, this);
  give_back();
}

void FolderLock::give_back_all() {
  const std::lock_guard lock(living.mutex);
  for (FolderLock* const one : living.locks) one->give_back();
}

void FolderLock::give_back() {
  if (descriptor_ < 0) return;
  // Unlink while it is locked: a process that opened it before sees that its name is gone.
  if (is_at(descriptor_, file_)) ::unlink(file_.c_str());
  ::close(std::exchange(descriptor_, -1));
  remove_empty(made_);
}

std::string FolderLock::mark() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string mark = concat(comm::host_name(), ' ', ::getpid(), ' ', now, '\n');
  const bool is_left =
      descriptor_ >= 0 && ::ftruncate(descriptor_, 0) == 0 &&
      std::cmp_equal(::pwrite(descriptor_, mark.data(), mark.size(), 0), mark.size()) &&
      ::fsync(descriptor_) == 0;
  return is_left ? mark : "";
}

bool sees_mark(const fs::path& folder, const std::string& mark) {
  const auto end = std::chrono::steady_clock::now() + kAppears;
  for (;;) {
    for (const fs::path& file : lock_files(folder))
      if (has_mark(file, mark)) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kLook);
  }
}

void require_takeable(const fs::path& folder) {
  require_own(folder);
  require_outside(folder);
  require_nothing_to_lose(folder);
  require_writable(folder);
}

std::optional<fs::path> prepare_folder(const fs::path& folder) {
  require_takeable(folder);
  const fs::path name = real_name(folder);
  std::optional<fs::path> moved;
  std::error_code failure;
  // Drafts of checkpoints are as large as a model and of no use: not moved along with what is kept.
  checkpoint::Store(checkpoints_folder(name)).sweep();
  if (holds_earlier_run(name)) {
    int number = 1;
    while (is_there(concat(name.string(), ".", number))) ++number;
    moved = concat(name.string(), ".", number);
    fs::rename(name, *moved, failure);
    if (failure)
      fail(folder, concat("holds an earlier run and cannot be renamed to ", moved->string(), ": ",
                          failure.message(), "; move it away, or give this run another folder"));
  }
  fs::create_directories(name, failure);
  if (failure)
    fail(folder, concat("cannot be made: ", failure.message(), "; give the run another one"));
  return moved;
}

}  // namespace trireme::app
