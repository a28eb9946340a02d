// SPDX-License-Identifier: Apache-2.0
#include "file_list.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <algorithm>
#include <map>
#include <system_error>

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

/// The regular files that match the pattern.
std::vector<fs::path> files_of(const std::string& pattern);
std::string working_folder();

}  // namespace

std::vector<fs::path> list_files(const std::vector<std::string>& patterns) {
  if (patterns.empty())
    throw InputError("data.files is empty, must name at least one file or pattern");
  std::map<fs::path, fs::path> name_of;  // by the file that the name resolves to
  for (const std::string& pattern : patterns) {
    for (const fs::path& name : files_of(pattern)) {
      std::error_code failure;
      const fs::path file = fs::canonical(name, failure);
      if (failure)
        throw InputError(
            concat("data.files: ", name.string(), ": cannot be read: ", failure.message()));
      const auto [entry, is_new] = name_of.try_emplace(file, name);
      fs::path& best = entry->second;
      if (is_new) continue;
      const bool was_link = fs::is_symlink(best, failure), is_link = fs::is_symlink(name, failure);
      const bool better = was_link == is_link ? name < best : was_link;
      if (better) best = name;
    }
  }
  std::vector<fs::path> names;
  for (const auto& [file, name] : name_of) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

std::string working_folder() {
  std::error_code failure;
  const fs::path folder = fs::current_path(failure);
  return failure ? concat("the working folder, which is gone: ", failure.message())
                 : folder.string();
}

std::vector<fs::path> files_of(const std::string& pattern) {
  std::vector<fs::path> files;
  for (const fs::path& name : io::expand(pattern)) {
    std::error_code failure;
    const fs::file_status status = fs::status(name, failure);
    if (fs::is_regular_file(status)) {
      files.push_back(name);
    } else if (name == fs::path(pattern)) {
      throw InputError(
          concat("data.files: ", pattern.empty() ? "''" : pattern, ": ",
                 fs::is_directory(status) ? "is a folder, must be a file (its files: add /*)"
                 : fs::exists(status)     ? "is not a regular file"
                                          : concat("cannot be read: ", failure.message())));
    }
  }
  if (files.empty())
    throw InputError(concat("data.files: no file matches '", pattern, "' (relative paths start at ",
                            working_folder(), ")"));
  return files;
}

}  // namespace
}  // namespace trireme::data
