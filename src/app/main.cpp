// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// Commands that need LibTorch live in a second executable beside this one, so that planning starts
/// in milliseconds.
constexpr const char* kRuntime = "trireme-runtime";

std::filesystem::path runtime_file() {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/exe", failure).parent_path() / kRuntime;
}

/// Whether the command's work needs LibTorch: training and measuring, and planning or checking a
/// job, whose layers have to be measured first.
bool needs_runtime(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view command = argv[1];
  for (const char* each : {"train", "profile", "export", "generate", "pack-images"})
    if (command == each) return true;
  if (command == "plan") return argc > 2 && argv[2][0] != '-';
  // Without a runtime a job is at least read and written out.
  return command == "check" && trireme::app::forecasts_a_job(argc, argv) &&
         std::filesystem::exists(runtime_file());
}

/// LibTorch's threads spin some 4 ms for more work before they sleep, which keeps cores from those
/// that they wait for where other processes want them, too; a fifteenth of it bridges the gaps
/// between operators. OpenMP reads it when it is loaded, so it must be there before.
void wait_less_busily() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "20000", /*overwrite=*/0);
}

/// SIGUSR1 asks `train` for a checkpoint, but would end a process that does not expect it yet, and
/// LibTorch takes its time to load: until watch_signals() of the runtime the signal waits. The
/// runtime has the mask of this process. Where it ends before that, after a wrong option, nobody is
/// left whom the signal could reach. Other commands have nothing to save.
void hold_save_signal(const std::string_view command) {
  if (command != "train") return;
  sigset_t saving;
  sigemptyset(&saving);
  sigaddset(&saving, SIGUSR1);
  sigprocmask(SIG_BLOCK, &saving, nullptr);
}

/// The option that a script has given a variable that is not set; null where there is none. What
/// prompts may be, `generate` says.
const char* option_without_value(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view option = argv[i - 1];
    if (argv[i][0] == '\0' && option.starts_with("-") && !option.starts_with("--prompt"))
      return argv[i - 1];
  }
  return nullptr;
}

/// Replaces this process; returns only when that failed.
int become_runtime(char** argv) {
  wait_less_busily();
  hold_save_signal(argv[1]);
  const std::filesystem::path runtime = runtime_file();
  execv(runtime.c_str(), argv);
  std::cerr << "trireme: cannot start " << runtime.string() << ": " << std::strerror(errno)
            << "; this build may be without the runtime (TRIREME_RUNTIME=OFF)\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* const option = option_without_value(argc, argv)) {
    std::cerr << "trireme: " << option << ": is empty, must have a value\n";
    return 2;
  }
  return needs_runtime(argc, argv) ? become_runtime(argv) : trireme::app::run_pure(argc, argv);
}
