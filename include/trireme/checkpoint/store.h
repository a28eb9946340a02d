// The folder with a run's checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/manifest.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trireme::checkpoint {

/// A checkpoint that is complete: its folder has this name.
struct Found {
  std::filesystem::path folder;  ///< "runs/a/checkpoints/step-300"
  std::int64_t step = 0;
};

/// A checkpoint is written into a draft, a folder of another name, and appears when that is
/// renamed: complete or not at all. For one process at a time.
class Store {
 public:
  explicit Store(std::filesystem::path root) : root_(std::move(root)) {}

  /// In the order of their steps; none where there is no such folder. Throws InputError where that
  /// cannot be told.
  std::vector<Found> complete() const;

  /// "step-300", and "step-300.draft".
  std::filesystem::path place(std::int64_t step) const;
  std::filesystem::path draft(std::int64_t step) const;
  /// Removes what crashes have left of drafts. Throws Error.
  void sweep() const;
  /// The same, and makes an empty draft. Throws Error, also where the folder around the store's
  /// own, which is the run's, is gone.
  void begin(std::int64_t step) const;
  /// Writes the job and the manifest, which says the job's digest, into the draft and gives it its
  /// name; one that has it already is
  /// replaced. Throws Error where a file of the manifest is not there as a whole: then ranks do not
  /// see the same folder.
  void publish(const Manifest& manifest, const std::string& job) const;
  /// After an error: a draft that will not be published is only in the way.
  void discard(std::int64_t step) const noexcept;
  /// Removes all but so many of the newest up to `newest`, the step that was just published. What
  /// has later steps is not of this run, and is neither counted nor removed.
  void keep(int count, std::int64_t newest) const;

 private:
  std::filesystem::path root_;
};

/// Where the files of a manifest end, by name: the bytes of each when it is whole.
std::map<std::string, Bytes> file_ends(const Manifest& manifest);

/// A file of the manifest that is not there with all its bytes, if there is one. Throws InputError
/// where that cannot be told.
std::optional<std::filesystem::path> incomplete_file(const Manifest& manifest,
                                                     const std::filesystem::path& folder);

/// Of a checkpoint's folder: what makes it one.
std::filesystem::path manifest_file(const std::filesystem::path& folder);
/// Throws InputError.
Manifest load_manifest(const std::filesystem::path& folder);
/// The same; throws InputError also where it is of another step than the folder's name says.
Manifest load_manifest(const Found& found);
/// The job that it was saved by, resolved, as YAML.
std::filesystem::path job_file(const std::filesystem::path& folder);
/// What stands in it. Throws InputError where that is not what was saved, as far as the manifest
/// says that.
io::Node load_job(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace trireme::checkpoint
