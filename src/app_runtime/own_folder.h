// How a run takes its folder: no other has it meanwhile, and nothing in it is lost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace trireme::app {

/// Absolute, and without the last slash of "runs/quickstart/".
std::filesystem::path plain_name(const std::filesystem::path& folder);

/// While it lives, no other run takes the folder: by a file beside it, .FOLDER.lock, or .lock in it
/// where nothing can be written beside it. Leaves neither that file nor empty folders made for it.
class FolderLock {
 public:
  /// Throws InputError if another run has it; where there can be no lock, says so on `out`.
  FolderLock(const std::filesystem::path& folder, std::ostream& out);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// All that live, of a process that ends at once.
  static void give_back_all();

  /// Leaves a mark there; nothing where there can be none.
  std::string mark() const;

 private:
  /// Whether it has the file, and the file its name.
  bool take(const std::filesystem::path& file);
  void give_back();

  int descriptor_ = -1;
  std::filesystem::path file_;
  std::vector<std::filesystem::path> made_;  ///< folders around it, the innermost first
};

/// Whether the mark that a run left is seen here, too: then this is its folder, not another one of
/// that name on a disk of this machine's own. Waits a little for it to appear.
bool sees_mark(const std::filesystem::path& folder, const std::string& mark);

/// Changes nothing. Throws InputError, about report.directory, where a run that begins could not
/// have the folder: it holds the working folder or something that the run would overwrite, lies in
/// another run's folder, or neither it nor the earlier run's new name can be written.
void require_takeable(const std::filesystem::path& folder);

/// Makes the folder. One that holds an earlier run, or its checkpoints alone, is renamed to
/// FOLDER.1, .2, ...; returns that name if so. Of a link, all this is done to what it names. Throws
/// as require_takeable().
std::optional<std::filesystem::path> prepare_folder(const std::filesystem::path& folder);

}  // namespace trireme::app
