// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/folder_lock.h"

#include "trireme/comm/host.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/folder.h"
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
#include <system_error>
#include <thread>
#include <utility>

namespace trireme::ranks {
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

/// Possible lock files, in the order in which they are tried: one next to the folder, because a new
/// run renames an earlier one in its place; where that cannot be written, because all around the
/// folder belongs to others, one in it, and then no run can rename the folder.
std::array<fs::path, 2> lock_files(const fs::path& folder) {
  const fs::path run = io::real_name(folder, "report.directory");
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
  std::error_code none;
  for (; folder.has_relative_path() && !fs::exists(folder, none); folder = folder.parent_path())
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

}  // namespace

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

}  // namespace trireme::ranks
