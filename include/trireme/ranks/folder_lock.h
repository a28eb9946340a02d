// Locks a run's folder against other runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

namespace trireme::ranks {

/// While it lives, no other run takes the folder: a lock file next to it, .FOLDER.lock, or .lock in
/// it where nothing can be written next to it. Removes that file and empty folders made for it.
class FolderLock {
 public:
  /// Throws InputError if another run has it; where there can be no lock, prints a note to `out`.
  FolderLock(const std::filesystem::path& folder, std::ostream& out);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Releases all locks of this process, which is about to exit.
  static void give_back_all();

  /// Writes a mark to the lock file and returns it; empty where that fails.
  std::string mark() const;

 private:
  /// Locks the file. Returns whether that succeeded and the file still has its name.
  bool take(const std::filesystem::path& file);
  void give_back();

  int descriptor_ = -1;
  std::filesystem::path file_;
  std::vector<std::filesystem::path> made_;  ///< parent folders made for it, innermost first
};

/// Whether the mark that a run wrote is visible here: if so, the folder is the run's, not another
/// one of that name on a local disk. Waits a few seconds for it to appear.
bool sees_mark(const std::filesystem::path& folder, const std::string& mark);

}  // namespace trireme::ranks
