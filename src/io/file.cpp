// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/file.h"

#include "descriptor.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <ostream>
#include <system_error>
#include <utility>

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

void refuse_unreadable(const fs::path& file, const struct stat& status, Bytes most);
[[noreturn]] void fail_too_large(const fs::path& file, const std::string& size, Bytes most);

void require_no_folder(const fs::path& file, const fs::file_status& status);
/// What the path means once a symbolic link is followed.
fs::path target_of(const fs::path& file);
void create_folder_of(const fs::path& file);
/// Where write_file() puts the content until it is complete: .NAME.PROCESS.part next to the file.
fs::path draft_of(const fs::path& file);
/// Name of the file that such a draft is for; "" for any other file.
std::string name_of_draft(const fs::path& draft);
void replace_file(const fs::path& file, std::string_view content);

}  // namespace

std::string read_file(const fs::path& file, Bytes most) {
  const Descriptor in(open_to_read(file));
  struct stat status {};
  if (::fstat(in.number(), &status) != 0) fail_read(file, errno);
  refuse_unreadable(file, status, most);

  std::string content;
  try {
    content.reserve(static_cast<std::size_t>(std::max<off_t>(status.st_size, 0)));
  } catch (const std::exception&) {  // bad_alloc, length_error
    throw Error(concat(file.string(), ": has ", to_text(Bytes(status.st_size)),
                       ", for which the system gave this process no memory"));
  }
  std::array<char, 1 << 16> piece{};
  while (true) {
    const ssize_t count = ::read(in.number(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_read(file, errno);
    if (count == 0) return content;
    content.append(piece.data(), static_cast<std::size_t>(count));
    if (std::cmp_greater(content.size(), most.count())) fail_too_large(file, "larger", most);
  }
}

void write_file(const fs::path& file, std::string_view content) {
  const fs::path target = target_of(file);
  std::error_code ignored;
  const fs::file_status status = fs::status(target, ignored);
  require_no_folder(file, status);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    const Descriptor out(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
    if (!out.is_open()) fail_write(file, errno);
    write_all(out, content, file);
    return;
  }
  write_own_file(target, content);
}

void write_own_file(const fs::path& file, std::string_view content) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(file, ignored);
  require_no_folder(file, status);
  if (fs::is_character_file(status) || fs::is_block_file(status))
    throw Error(concat(file.string(), ": cannot be written: it is a device"));
  create_folder_of(file);
  replace_file(file, content);
  flush_folder(file.parent_path());
}

void remove_drafts(const fs::path& folder, const std::set<std::string>& names) {
  std::vector<fs::path> drafts;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure))
    if (names.contains(name_of_draft(entry->path()))) drafts.push_back(entry->path());
  if (failure) throw Error(concat(folder.string(), ": cannot be read: ", failure.message()));
  for (const fs::path& draft : drafts) remove_own_file(draft);
}

void remove_own_file(const fs::path& file) {
  std::error_code failure;
  fs::remove(file, failure);
  if (failure) throw Error(concat(file.string(), ": cannot be removed: ", failure.message()));
}

void require_writable(const fs::path& file) {
  if (file.empty()) return;
  const fs::path target = target_of(file);
  std::error_code ignored;
  require_no_folder(file, fs::status(target, ignored));
  fs::path place = target;
  if (!fs::is_other(target, ignored)) {
    place = fs::absolute(target, ignored).parent_path();
    while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
    if (!fs::is_directory(place, ignored)) fail_write(file, ENOTDIR);
  }
  if (::access(place.c_str(), W_OK) != 0) fail_write(file, errno);
}

std::optional<Clash> find_clash(const std::vector<std::pair<std::string, std::string>>& files) {
  std::map<fs::path, std::string> options;
  std::error_code failure;
  for (const auto& [option, file] : files) {
    if (file.empty() || fs::is_other(file, failure)) continue;
    const fs::path whole = fs::absolute(file, failure);
    const fs::path place = failure ? whole : fs::weakly_canonical(whole, failure);
    if (failure) continue;  // the write will report what is wrong
    const auto [first, is_new] = options.try_emplace(place, option);
    if (!is_new)
      return Clash{.option = option,
                   .reason = concat("names ", file, ", as ", first->second,
                                    " does: give each a file of its own")};
  }
  return std::nullopt;
}

void require_written(std::ostream& out, const std::string& name) {
  errno = 0;
  if (!out.flush()) fail_write(name, errno == 0 ? EIO : errno);
}

std::vector<fs::path> expand(const std::string& pattern) {
  std::error_code ignored;
  if (pattern.find_first_of("*?[") == std::string::npos || fs::exists(pattern, ignored))
    return {pattern};
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<fs::path> files;
  for (std::size_t i = 0; code == 0 && i < found.gl_pathc; ++i) {
    const fs::file_status status = fs::status(found.gl_pathv[i], ignored);
    if (fs::exists(status) && !fs::is_directory(status)) files.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  if (code == GLOB_NOSPACE) throw Error(concat(pattern, ": out of memory while listing files"));
  std::sort(files.begin(), files.end());
  return files;
}

std::optional<std::string> unexpanded(const std::string& path) {
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (path.starts_with('~')) {
    const bool is_own = path.size() == 1 || path[1] == '/';
    const std::string there = is_own && home != nullptr ? home + path.substr(1) : "/home/...";
    return concat("is ", path, ", but ~ is not expanded here: write ", there, " (or ./", path,
                  " for a name that begins with ~)");
  }
  for (std::size_t at = path.find('$'); at != std::string::npos; at = path.find('$', at + 1)) {
    const char next = at + 1 < path.size() ? path[at + 1] : ' ';
    if (std::isalpha(static_cast<unsigned char>(next)) == 0 && next != '_' && next != '{') continue;
    std::error_code ignored;
    if (fs::exists(path.substr(0, path.find('/', at)), ignored))
      continue;  // a file has this very name
    return concat("is ", path, ", but variables are not expanded here: write out what ",
                  path.substr(at, path.find('/', at) - at),
                  " stands for, or let the shell do so, in double quotes");
  }
  return std::nullopt;
}

namespace {

void refuse_unreadable(const fs::path& file, const struct stat& status, Bytes most) {
  if (S_ISREG(status.st_mode) && Bytes(status.st_size) > most)
    fail_too_large(file, to_text(Bytes(status.st_size)), most);
}

void fail_too_large(const fs::path& file, const std::string& size, Bytes most) {
  throw InputError(concat(file.string(), ": is ", size, ", must be at most ", to_text(most)));
}

void require_no_folder(const fs::path& file, const fs::file_status& status) {
  if (fs::is_directory(status))
    throw Error(concat(file.string(), ": cannot be written: it is a folder"));
}

fs::path target_of(const fs::path& file) {
  constexpr int kMostLinks = 40;  // as Linux
  std::error_code failure;
  // The target of /dev/stdout may have no path of its own.
  if (fs::is_other(fs::status(file, failure))) return file;
  fs::path target = file;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, failure)); ++links) {
    if (links == kMostLinks) fail_write(file, ELOOP);
    const fs::path next = fs::read_symlink(target, failure);
    if (failure) fail_write(file, failure.value());
    target = target.parent_path() / next;
  }
  return target;
}

void create_folder_of(const fs::path& file) {
  if (file.parent_path().empty()) return;
  std::error_code failure;
  fs::create_directories(file.parent_path(), failure);
  if (failure) fail_write(file, failure.value());
}

fs::path draft_of(const fs::path& file) {
  // The process number keeps ranks that share a folder apart.
  return file.parent_path() / concat(".", file.filename().string(), ".", ::getpid(), ".part");
}

std::string name_of_draft(const fs::path& draft) {
  const fs::path numbered = draft.stem();
  const std::string process = numbered.extension().string();
  const std::string name = numbered.stem().string();
  const bool is_number =
      process.size() > 1 && process.find_first_not_of("0123456789", 1) == std::string::npos;
  return draft.extension() == ".part" && is_number && name.starts_with('.') ? name.substr(1) : "";
}

void replace_file(const fs::path& file, std::string_view content) {
  const fs::path draft = draft_of(file);
  ::unlink(draft.c_str());
  try {
    Descriptor out(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!out.is_open()) fail_write(file, errno);
    write_all(out, content, file);
    if (::fsync(out.number()) != 0 || !out.close()) fail_write(file, errno);
    if (::rename(draft.c_str(), file.c_str()) != 0) fail_write(file, errno);
  } catch (...) {
    ::unlink(draft.c_str());
    throw;
  }
}

}  // namespace
}  // namespace trireme::io
