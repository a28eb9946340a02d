// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/store.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/io/pieces.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kDraft = ".draft";
/// As for a job that is written by hand.
constexpr Bytes kMostJob{1 << 20};

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(begin, end, step);
  if (read.ec != std::errc() || read.ptr != end || step < 0) return std::nullopt;
  return step;
}

void remove_folder(const fs::path& folder) {
  std::error_code failure;
  fs::remove_all(folder, failure);
  if (failure) throw Error(concat(folder.string(), ": cannot be removed: ", failure.message()));
}

bool is_missing(const std::error_code& failure) {
  return failure == std::errc::no_such_file_or_directory;
}

/// A disk that fails for a moment must not look like one without checkpoints: a new run would begin
/// in the same folder.
[[noreturn]] void fail_look(const fs::path& place, const std::error_code& failure) {
  throw InputError(concat(place.string(), ": cannot be read: ", failure.message(),
                          "; whether checkpoints are there is not known, so make it readable, or "
                          "give the run another report.directory"));
}

/// Folders in `root`; none if nothing has that name. Throws InputError for any other reason.
std::vector<fs::path> folders_in(const fs::path& root) {
  std::vector<fs::path> folders;
  std::error_code failure;
  // Also if a parent of `root` is a file: whoever creates `root` reports that.
  if (fs::status(root, failure).type() == fs::file_type::not_found) return folders;
  fs::directory_iterator entry(root, failure);
  while (!failure && entry != fs::directory_iterator()) {
    const bool is_folder = entry->is_directory(failure);
    if (failure && !is_missing(failure)) fail_look(entry->path(), failure);
    if (is_folder) folders.push_back(entry->path());
    entry.increment(failure);
  }
  if (failure) fail_look(root, failure);
  return folders;
}

}  // namespace

fs::path checkpoints_folder(const fs::path& run) {
  return run / "checkpoints";
}

std::vector<Found> Store::complete() const {
  std::vector<Found> found;
  for (const fs::path& folder : folders_in(root_))
    if (const auto step = step_of(folder.filename().string()))
      found.push_back({.folder = folder, .step = *step});
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

fs::path Store::place(std::int64_t step) const {
  return root_ / concat(kPrefix, step);
}

fs::path Store::draft(std::int64_t step) const {
  return concat(place(step).string(), kDraft);
}

void Store::sweep() const {
  for (const fs::path& folder : folders_in(root_))
    if (folder.filename().string().ends_with(kDraft)) remove_folder(folder);
}

void Store::begin(std::int64_t step) const {
  std::error_code failure;
  const fs::path run = root_.parent_path();
  if (!run.empty() && fs::status(run, failure).type() == fs::file_type::not_found)
    throw Error(
        concat(run.string(),
               ": is not there any more, so that no checkpoint can be saved: it was removed "
               "or renamed while the run trains; where it was renamed, give it its name "
               "again, and the same command resumes from its newest checkpoint"));
  sweep();
  fs::create_directories(draft(step), failure);
  if (failure)
    throw Error(concat(draft(step).string(), ": cannot be created: ", failure.message()));
}

void Store::publish(const Manifest& manifest, const std::string& job) const {
  const fs::path folder = draft(manifest.step);
  if (const auto file = incomplete_file(manifest, folder))
    throw Error(concat(file->string(),
                       ": was written by another rank and is not here with all its bytes: "
                       "report.directory must be on a file system that all ranks share"));
  io::write_file(job_file(folder), job);
  Manifest whole = manifest;
  whole.job = digest(job);
  io::write_file(manifest_file(folder), to_json(whole));
  remove_folder(place(manifest.step));
  io::publish_folder(folder, place(manifest.step));
}

void Store::discard(std::int64_t step) const noexcept {
  std::error_code ignored;
  fs::remove_all(draft(step), ignored);
}

void Store::keep(int count, std::int64_t newest) const {
  std::vector<Found> all = complete();
  std::erase_if(all, [&](const Found& found) { return found.step > newest; });
  for (std::size_t i = 0; i + static_cast<std::size_t>(count) < all.size(); ++i) {
    // Renamed to a draft first: half a checkpoint must not look like one.
    io::publish_folder(all[i].folder, draft(all[i].step));
    remove_folder(draft(all[i].step));
  }
}

std::map<std::string, Bytes> file_ends(const Manifest& manifest) {
  std::map<std::string, Bytes> ends;
  for (const auto& [name, entry] : manifest.tensors)
    ends[entry.file] = std::max(ends[entry.file], entry.offset + entry.size);
  return ends;
}

std::optional<fs::path> incomplete_file(const Manifest& manifest, const fs::path& folder) {
  for (const auto& [file, end] : file_ends(manifest)) {
    std::error_code failure;
    const auto size = fs::file_size(folder / file, failure);
    if (failure && !is_missing(failure))
      throw InputError(
          concat((folder / file).string(), ": cannot be read: ", failure.message(),
                 "; whether the checkpoint is complete is not known, so make it readable"));
    if (failure || !std::cmp_equal(size, end.count())) return folder / file;
  }
  return std::nullopt;
}

fs::path manifest_file(const fs::path& folder) {
  return folder / "manifest.json";
}

Manifest load_manifest(const fs::path& folder) {
  return read_manifest(io::load(manifest_file(folder)));
}

Manifest load_manifest(const Found& found) {
  Manifest manifest = load_manifest(found.folder);
  if (manifest.step == found.step) return manifest;
  throw InputError(concat(manifest_file(found.folder).string(), ": step is ", manifest.step,
                          ", must be ", found.step, ", as in the folder's name"));
}

fs::path job_file(const fs::path& folder) {
  return folder / "job.yaml";
}

io::Node load_job(const fs::path& folder, const Manifest& manifest) {
  const fs::path file = job_file(folder);
  const std::string text = io::read_file(file, kMostJob);
  if (!manifest.job.empty() && digest(text) != manifest.job)
    throw InputError(
        concat(file.string(), ": is not the job that the checkpoint was saved by (its digest is ",
               digest(text), ", manifest.json has ", manifest.job,
               "): the file was changed or is damaged; put it back, or take another checkpoint"));
  return io::parse(text, file.string());
}

}  // namespace trireme::checkpoint
