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

/// A complete checkpoint: its folder has its final name.
struct Found {
  std::filesystem::path folder;  ///< "runs/a/checkpoints/step-300"
  std::int64_t step = 0;
};

/// The folder of checkpoints in a run's folder.
std::filesystem::path checkpoints_folder(const std::filesystem::path& run);

/// Checkpoints are written into a draft, a folder of another name that is then renamed: they appear
/// complete or not at all. For one process at a time.
class Store {
 public:
  explicit Store(std::filesystem::path root) : root_(std::move(root)) {}

  /// Complete checkpoints by step; none if the folder does not exist. Throws InputError if that
  /// cannot be determined.
  std::vector<Found> complete() const;

  /// "step-300", and "step-300.draft".
  std::filesystem::path place(std::int64_t step) const;
  std::filesystem::path draft(std::int64_t step) const;
  /// Removes drafts that crashes have left. Throws Error.
  void sweep() const;
  /// The same, and makes an empty draft. Throws Error, also if the run's folder, which is around
  /// the store's own, is gone.
  void begin(std::int64_t step) const;
  /// Writes the job and the manifest, with the job's digest, into the draft and renames it,
  /// replacing a checkpoint of that name. Throws Error if a file of the manifest is missing or
  /// incomplete: then ranks do not see the same folder.
  void publish(const Manifest& manifest, const std::string& job) const;
  /// After an error: removes a draft that will not be published.
  void discard(std::int64_t step) const noexcept;
  /// Removes all but the newest `count` checkpoints up to `newest`, the step that was just
  /// published. Checkpoints of later steps are not of this run, and are neither counted nor
  /// removed.
  void keep(int count, std::int64_t newest) const;

 private:
  std::filesystem::path root_;
};

/// Sizes of the manifest's complete files, by name.
std::map<std::string, Bytes> file_ends(const Manifest& manifest);

/// A file of the manifest that is missing or does not have all its bytes, if there is one. Throws
/// InputError if that cannot be determined.
std::optional<std::filesystem::path> incomplete_file(const Manifest& manifest,
                                                     const std::filesystem::path& folder);

/// Path of the manifest in a checkpoint's folder.
std::filesystem::path manifest_file(const std::filesystem::path& folder);
/// Throws InputError.
Manifest load_manifest(const std::filesystem::path& folder);
/// The same; throws InputError also if its step is not that of the folder's name.
Manifest load_manifest(const Found& found);
/// Path of the job that the checkpoint was saved by: resolved, as YAML.
std::filesystem::path job_file(const std::filesystem::path& folder);
/// Reads the job. Throws InputError if it is not what was saved, as far as the manifest has its
/// digest.
io::Node load_job(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace trireme::checkpoint
