// Running a program and looking at what it printed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace trireme {

struct CommandResult {
  int exit_code = -1;
  std::string out;     ///< standard output
  std::string errors;  ///< standard error
};

inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name) << content;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

/// Runs a shell command to its end.
inline CommandResult run_command(const std::string& command) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string(),
                    errors = (folder.path() / "errors").string();
  const int status = std::system(
      ("( " + command + " ) >" + out + " 2>" + errors + " </dev/null").c_str());  // NOLINT
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = text_of(out),
          .errors = text_of(errors)};
}

}  // namespace trireme
