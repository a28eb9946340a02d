// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace {

/// Commands that need LibTorch live in a second executable beside this one, so that planning starts
/// in milliseconds.
constexpr const char* kRuntime = "trireme-runtime";

bool needs_runtime(int argc, char** argv) {
  return argc > 1 && (std::strcmp(argv[1], "train") == 0 || std::strcmp(argv[1], "profile") == 0);
}

/// Replaces this process; returns only when that failed.
int become_runtime(char** argv) {
  std::error_code failure;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failure);
  const std::filesystem::path runtime = self.parent_path() / kRuntime;
  execv(runtime.c_str(), argv);
  std::cerr << "trireme: cannot start " << runtime.string() << ": " << std::strerror(errno)
            << "; this build may be without the runtime (TRIREME_RUNTIME=OFF)\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  return needs_runtime(argc, argv) ? become_runtime(argv) : trireme::app::run_pure(argc, argv);
}
