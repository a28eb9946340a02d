// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include "trireme/core/cores.h"
#include "trireme/core/visible.h"
#include "trireme/io/terminal.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// Executable next to this one for commands that need LibTorch, so that planning starts in
/// milliseconds.
constexpr const char* kRuntime = "trireme-runtime";

std::filesystem::path runtime_file() {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/exe", failure).parent_path() / kRuntime;
}

/// Whether the command needs LibTorch: training and measuring, and planning or checking a job,
/// whose layers have to be measured first.
bool needs_runtime(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view command = argv[1];
  for (const char* each : {"train", "profile", "export", "generate", "pack-images"})
    if (command == each) return true;
  if (command == "plan") return argc > 2 && argv[2][0] != '-';
  std::error_code none;
  // Without the runtime a job is at least read and printed.
  return command == "check" && trireme::app::forecasts_a_job(argc, argv) &&
         std::filesystem::exists(runtime_file(), none);
}

/// Share of time with threads waiting for a core above which no core is free to spin on.
constexpr double kTaken = 0.2;

/// LibTorch's threads spin for about 4 ms before they sleep, which blocks cores that other
/// processes want, including those they wait for. A fifteenth of that bridges the gaps between
/// operators; where cores are already busy when the run begins, threads sleep at once. OpenMP reads
/// the setting when it is loaded, so it must be set before
/// (docs/decisions/0010-waiting-threads.md).
void wait_less_busily() {
  for (const char* const by_user : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
    if (std::getenv(by_user) != nullptr) return;
  std::ostringstream pressure;
  pressure << std::ifstream("/proc/pressure/cpu").rdbuf();
  if (trireme::cpu_pressure(pressure.str()).value_or(0) >= kTaken) {
    setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  } else {
    setenv("GOMP_SPINCOUNT", "20000", /*overwrite=*/0);
  }
}

/// SIGINT and SIGTERM request an end with exit code 130, SIGUSR1 asks `train` for a checkpoint.
/// They would kill a process that does not handle them yet, and LibTorch takes time to load: they
/// stay blocked until the runtime, which inherits this mask, has WatchedSignals. `generate` has
/// nothing to close or save.
void hold_signals(const std::string_view command) {
  if (command == "generate") return;
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&held, signal);
  if (command == "train") sigaddset(&held, SIGUSR1);
  sigprocmask(SIG_BLOCK, &held, nullptr);
}

/// The option with an empty value, such as an unset variable of a script; null where there is none.
/// `generate` checks prompts itself.
const char* option_without_value(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view option = argv[i - 1];
    if (argv[i][0] == '\0' && option.starts_with("-") && !option.starts_with("--prompt"))
      return argv[i - 1];
  }
  return nullptr;
}

/// Address space that LibTorch's libraries take before their first line runs: with less, the loader
/// or a constructor aborts with an unhelpful message.
constexpr rlim_t kLeastAddresses = rlim_t{430} << 20;

/// Replaces this process; returns only when that failed.
int become_runtime(char** argv) {
  struct rlimit addresses {};
  if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur < kLeastAddresses) {
    std::cerr << "trireme: this process may use " << (addresses.rlim_cur >> 20)
              << " MiB of addresses (ulimit -v), but LibTorch alone takes "
              << (kLeastAddresses >> 20) << " MiB: raise the limit\n";
    return 1;
  }
  wait_less_busily();
  hold_signals(argv[1]);
  const std::filesystem::path runtime = runtime_file();
  execv(runtime.c_str(), argv);
  std::cerr << "trireme: cannot start " << trireme::visible(runtime.string()) << ": "
            << std::strerror(errno)
            << "; this build may be without the runtime (TRIREME_RUNTIME=OFF)\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::io::open_standard_descriptors();
  if (const char* const option = option_without_value(argc, argv)) {
    std::cerr << "trireme: " << trireme::visible(option) << ": is empty, must have a value\n";
    return 2;
  }
  return needs_runtime(argc, argv) ? become_runtime(argv) : trireme::app::run_pure(argc, argv);
}
